#!/usr/bin/env python3
"""Checks that whatever members torch::Tensor has, Proxy has too, or docs/from_torch_fx.md says what to write instead.

usage: members.py SOURCE_FOLDER TORCH_FOLDER
"""

import fnmatch
import pathlib
import re
import sys

source, torch = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def members(path, name):
    """Names of the public member functions that a header declares in a class."""
    text = re.sub(r'//[^\n]*|/\*.*?\*/', '', path.read_text(), flags=re.DOTALL)
    text = re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', '', text, flags=re.MULTILINE)
    text = text[re.search(rf'class (?:TORCH_API )?{name}\b[^;{{]*{{', text).end():]
    # What stands in the class itself: bodies, and what stands in parentheses, left out.
    declarations, braces, parentheses = '', 0, 0
    for c in text:
        if c == '{':
            braces += 1
        elif c == '}':
            braces -= 1
            if braces < 0:
                break
            declarations += ';' if not braces and not parentheses else ''
        elif not braces:
            parentheses -= c == ')'
            declarations += c if not parentheses else ''
            parentheses += c == '('
    names, public = set(), False
    for declaration in re.sub(r'\b(public|private|protected)\s*:', r';\1;', declarations).split(';'):
        if declaration.strip() in ('public', 'private', 'protected'):
            public = declaration.strip() == 'public'
        declaration = re.sub(r'\bC10_\w+\s*\(\)', '', declaration)
        # With a type before it: constructors have none, operators no name.
        declared = re.match(r'\s*(?:template\s*<.*?>\s*)?(?!using|friend|explicit|typedef|virtual)[\w:<>,*&\s]*?[\w>*&]\s+[*&]?'
                            r'(?!operator)(\w+)\s*\(\)', declaration)
        if public and declared and declared[1] != name and 'operator' not in declaration:
            names.add(declared[1])
    return names


def documented():
    """The first column of the table of what a proxy does not have: names, and patterns of names."""
    page = (source / 'docs/from_torch_fx.md').read_text()
    table = page.partition('### What a proxy does not have')[2].partition('\n## ')[0]
    return {name for row in re.findall(r'^\| ([^|]*) \|', table, re.MULTILINE) for name in re.findall(r'`([^`]+)`', row)}


core = torch / 'include/ATen/core'
wanted = members(core / 'TensorBase.h', 'TensorBase') | members(core / 'TensorBody.h', 'Tensor')
trace = source / 'include/fxx/trace'
ours = (members(trace / 'proxy.hpp', 'Proxy') | members(trace / 'operand.hpp', 'ProxyBase') |
        set(re.findall(r'^[^(]*?(\w+)\(', (trace / 'methods_declared.inc').read_text(), re.MULTILINE)))
told = documented()
missing = sorted(name for name in wanted - ours if not any(fnmatch.fnmatchcase(name, pattern) for pattern in told))
faults = [f'torch::Tensor::{name}: Proxy has no such member, and docs/from_torch_fx.md does not say what to write instead'
          for name in missing]
faults += [f'docs/from_torch_fx.md: `{name}` is a member of Proxy' for name in sorted(told & ours & wanted)]
if not {'relu', 'size', 'sizes', 'data_ptr', 'requires_grad_', 'to', 'backward', 'flatten'} <= wanted or len(wanted) < 700:
    faults.append(f'{core}: only {len(wanted)} members of torch::Tensor were found; this check cannot read the headers')
print(*faults, sep='\n' if faults else '')
print(f'{len(wanted) - len(missing)} passed, {len(faults)} failed')
sys.exit(bool(faults))
