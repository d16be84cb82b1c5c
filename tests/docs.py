#!/usr/bin/env python3
"""Checks that the documents keep step with the code: error ids, links, the version; and tables with their raw figures.

usage: docs.py SOURCE_FOLDER
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
sys.dont_write_bytecode = True
sys.path.insert(0, str(root / 'bench'))
import results  # noqa: E402


def error_ids():
    """docs/errors.md has one heading for each ErrorId and no other."""
    source = (root / 'include/fxx/error.hpp').read_text()
    body = re.search(r'enum class ErrorId[^{]*\{(.*?)\};', source, re.DOTALL)[1]
    in_code = {f'E{number} {name}' for name, number in re.findall(r'^\s*(\w+) = (\d+),', body, re.MULTILINE)}
    text = (root / 'docs/errors.md').read_text()
    headings = re.findall(r'^## (E\d+ .*)$', text, re.MULTILINE)
    for heading in sorted(in_code - set(headings)):
        yield f'docs/errors.md has no section "## {heading}"'
    for heading in sorted(set(headings) - in_code):
        yield f'docs/errors.md: "## {heading}" is no ErrorId of include/fxx/error.hpp'
    for heading in sorted({h for h in headings if headings.count(h) > 1}):
        yield f'docs/errors.md: "## {heading}" stands twice'
    if headings != sorted(headings):
        yield 'docs/errors.md: the sections are not in the order of their numbers'
    for section in re.split(r'^## ', text, flags=re.MULTILINE)[1:]:
        heading, _, rest = section.partition('\n')
        if len(rest.split()) < 15:
            yield f'docs/errors.md: the section "{heading}" says nothing'


def provoked_ids():
    """A test names each ErrorId: by its enumerator, as E104, or as the number that a fault has."""
    source = (root / 'include/fxx/error.hpp').read_text()
    body = re.search(r'enum class ErrorId[^{]*\{(.*?)\};', source, re.DOTALL)[1]
    tests = '\n'.join(path.read_text() for path in sorted((root / 'tests').rglob('*.[hc]pp')))
    for name, number in re.findall(r'^\s*(\w+) = (\d+),', body, re.MULTILINE):
        if not re.search(rf'ErrorId::{name}\b|\bid(\(\))? == {number}\b|\bE{number}\b', tests):
            yield f'no test provokes E{number} {name}'


def anchor(heading):
    """The anchor that a Markdown heading gets on the usual hosts."""
    words = re.sub(r'[`*]|\[([^]]*)\]\([^)]*\)', lambda m: m[1] or '', heading).strip().lower()
    return re.sub(r'[^\w\- ]', '', words).replace(' ', '-')


def prose(text):
    """Without code, where brackets mean something else."""
    return re.sub(r'```.*?```|`[^`\n]*`', '', text, flags=re.DOTALL)


def links():
    """Local links of README.md, CHANGELOG.md and docs/ point at files and headings that exist."""
    for page in [root / 'README.md', root / 'CHANGELOG.md', *sorted((root / 'docs').rglob('*.md'))]:
        for target in re.findall(r'\]\(([^)\s]+)\)', prose(page.read_text())):
            if re.match(r'[a-z]+:', target):
                continue
            path, _, fragment = target.partition('#')
            file = (page.parent / path).resolve() if path else page
            name = page.relative_to(root).as_posix()
            if not file.exists():
                yield f'{name}: the link to {target} leads nowhere'
            elif fragment and file.suffix == '.md':
                if fragment not in {anchor(h) for h in re.findall(r'^#+ (.*)$', file.read_text(), re.MULTILINE)}:
                    yield f'{name}: the link to {target} names a heading that does not exist'


def version():
    """meson.build and include/fxx/version.hpp state one version."""
    header = (root / 'include/fxx/version.hpp').read_text()
    numbers = '.'.join(re.search(rf'#define FXX_VERSION_{p} (\d+)', header)[1] for p in ('MAJOR', 'MINOR', 'PATCH'))
    text = re.search(r'#define FXX_VERSION_TEXT "(.*)"', header)[1]
    build = re.search(r"project\(.*?version: '([^']*)'", (root / 'meson.build').read_text(), re.DOTALL)[1]
    if not numbers == text == build:
        yield f'version.hpp says {numbers} and "{text}", meson.build says {build}'


def tables_of(lines):
    """The first and last line of each table: of Markdown, or a block that is no code."""
    at = 0
    while at < len(lines):
        first = at
        if lines[at].startswith('```'):
            at += 1
            while not lines[at].startswith('```'):
                at += 1
            if lines[first].strip() == '```':
                yield first, at
        elif lines[at].startswith('|'):
            while at + 1 < len(lines) and lines[at + 1].startswith('|'):
                at += 1
            yield first, at
        at += 1


def raw_figures():
    """Files of bench/results are as its README says; each table of figures in docs/performance.md is followed by the name
    of its file, which has its rows, or says that none was kept."""
    for path in sorted((root / 'bench/results').rglob('*.json')):
        for problem in results.problems_of(path):
            yield f'{path.relative_to(root)}: {problem}'
    page = root / 'docs/performance.md'
    lines = page.read_text().splitlines()
    for first, last in tables_of(lines):
        if not re.search(r'(?<![\w.])\d[\d.]*(?!\w)', '\n'.join(lines[first + 1:last + 1])):
            continue  # a table of words
        where = f'docs/performance.md:{first + 1}'
        below = next((line for line in lines[last + 1:] if line.strip()), '')
        named = re.match(r'Raw figures: \[[^]]*\]\(([^)]*)\)', below)
        if not named:
            if not below.startswith('Raw figures: none were kept.'):
                yield f'{where}: the table is not followed by a line "Raw figures: ..." (bench/results/README.md)'
            continue
        path = (page.parent / named[1]).resolve()
        if not path.exists():
            yield f'{where}: {named[1]} is not there'
            continue
        has = {line for table in results.tables(path) for line in table}
        for line in lines[first:last + 1]:
            if line not in has:
                yield f'{where}: {named[1]} does not have the row "{line}"'


def main():
    passed = failed = 0
    for check in (error_ids, provoked_ids, links, version, raw_figures):
        problems = list(check())
        print(*problems, sep='\n' if problems else '', end='\n' if problems else '')
        passed, failed = passed + (not problems), failed + bool(problems)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
