#!/usr/bin/env python3
"""Checks that others can use the library: what `meson install` installs, through pkg-config, and as a Meson subproject.

usage: consumer.py installed|subproject RESULT SOURCE_FOLDER TORCH_FOLDER -- COMPILER    (a Python that has Meson)
Works on a copy of what a release holds, without tests, examples and benchmarks. TORCH_FOLDER may be empty.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import results  # noqa: E402

MESON = [sys.executable, '-m', 'mesonbuild.mesonmain']
RELEASE = ['include', 'tools', 'meson.build', 'meson.options', 'LICENSE']
EXPECTED = ('graph():\n    %x : [num_users=1] = placeholder[target=x]\n'
            '    %relu : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%x,), kwargs = {})\n'
            '    return relu\n')


class Failed(Exception):
    pass


def run(*command, **more):
    command = [str(c) for c in command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **more)
    if done.returncode != 0:
        raise Failed(f'`{shlex.join(command)}` gave status {done.returncode}:\n{done.stdout[-3000:]}')
    return done.stdout


def expect_graph(program):
    output = run(program)
    if output != EXPECTED:
        raise Failed(f'{program.name} printed\n{output}')


def copy_release(source, to):
    to.mkdir()
    for name in RELEASE:
        (shutil.copytree if (source / name).is_dir() else shutil.copy)(source / name, to / name)


def installed(source, torch, scratch, compiler):
    """The plain compiler with the flags that pkg-config gives."""
    copy_release(source, scratch / 'fxx')
    prefix = scratch / 'prefix'
    wing = ['-Dwing=disabled']
    if torch:  # by a path without spaces, which pkg-config cannot pass on
        (scratch / 'libtorch').symlink_to(torch)
        wing = [f'-Dtorch={scratch / "libtorch"}', '-Dwing=enabled']
    run(*MESON, 'setup', scratch / 'build', scratch / 'fxx', f'--prefix={prefix}', '--libdir=lib', *wing,
        env={**os.environ, 'CXX': shlex.quote(compiler)})
    run(*MESON, 'install', '-C', scratch / 'build', '--quiet')
    shutil.rmtree(scratch / 'fxx')
    want = {p.relative_to(source).as_posix() for p in (source / 'include').rglob('*') if p.is_file()}
    have = {p.relative_to(prefix).as_posix() for p in (prefix / 'include').rglob('*') if p.is_file()}
    if want != have:
        raise Failed(f'installed headers differ from include/: {sorted(want ^ have)}')
    if not (prefix / 'share/licenses/fxx/LICENSE').is_file():
        raise Failed('the licence was not installed')
    environment = {**os.environ, 'PKG_CONFIG_PATH': str(prefix / 'lib/pkgconfig')}

    def build(program, package):
        flags = shlex.split(run('pkg-config', '--cflags', '--libs', package, env=environment))
        run(compiler, '-std=c++20', '-Wall', '-Wextra', '-Werror', source / f'tests/consumer/{program}.cpp',
            '-o', scratch / program, *flags)
        return scratch / program

    expect_graph(build('main', 'fxx'))
    if torch:
        run(build('torch', 'fxx-torch'), env={**os.environ, 'FXX_CACHE_DIR': str(scratch / 'cache')})


def subproject(source, torch, scratch, compiler):
    """A Meson project with a copy of ours under subprojects/."""
    project = scratch / 'project'
    shutil.copytree(source / 'tests/consumer', project)
    (project / 'subprojects').mkdir()
    copy_release(source, project / 'subprojects/fxx')
    run(*MESON, 'setup', scratch / 'build', project, '-Dwarning_level=2', '-Dwerror=true',
        env={**os.environ, 'CXX': shlex.quote(compiler)})
    run(*MESON, 'compile', '-C', scratch / 'build', '-j', '1')
    expect_graph(scratch / 'build/compiled')
    expect_graph(scratch / 'build/header_only')


def main(how, result, source, torch, _, compiler):
    problems = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            {'installed': installed, 'subproject': subproject}[how](pathlib.Path(source), torch, pathlib.Path(scratch),
                                                                    compiler)
        except Failed as failure:
            problems = [str(failure)]
    results.store(result, result + '.d', f'consumer {how}', problems)


if __name__ == '__main__':
    main(*sys.argv[1:])
