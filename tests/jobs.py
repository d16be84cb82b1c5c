#!/usr/bin/env python3
"""Tests tools/jobs.py on made-up trees of control groups, of both versions.

usage: jobs.py
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'tools'))
import jobs  # noqa: E402

GB = 10**9
VERSION_2 = '31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n'
VERSION_1 = ('33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n'
             '35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n')
MEMINFO = f'MemTotal: 1 kB\nMemAvailable: {64 * GB // 1024} kB\n'
# Files, and how many jobs of 2.5 GB run on 16 processors.
CASES = [
    ({}, 16),
    ({'proc/meminfo': MEMINFO}, 16),
    ({'proc/meminfo': f'MemAvailable: {6 * GB // 1024} kB\n'}, 2),
    ({'proc/meminfo': 'MemAvailable: 5 kB\n'}, 1),
    ({'proc/meminfo': MEMINFO, 'proc/self/cgroup': '0::/a/b\n', 'proc/self/mountinfo': VERSION_2,
      'sys/fs/cgroup/a/b/cpu.max': 'max 100000\n', 'sys/fs/cgroup/a/b/memory.max': 'max\n'}, 16),
    ({'proc/meminfo': MEMINFO, 'proc/self/cgroup': '0::/a/b\n', 'proc/self/mountinfo': VERSION_2,
      'sys/fs/cgroup/a/cpu.max': '350000 100000\n'}, 4),
    ({'proc/meminfo': MEMINFO, 'proc/self/cgroup': '0::/a/b\n', 'proc/self/mountinfo': VERSION_2,
      'sys/fs/cgroup/memory.max': f'{8 * GB}\n', 'sys/fs/cgroup/memory.current': f'{4 * GB}\n',
      'sys/fs/cgroup/memory.stat': f'anon 1\ninactive_file {GB + 10**8}\n'}, 2),
    ({'proc/meminfo': MEMINFO, 'proc/self/cgroup': '4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n',
      'proc/self/mountinfo': VERSION_1, 'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': '-1\n',
      'sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '100000\n',
      'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n'}, 16),
    ({'proc/meminfo': MEMINFO, 'proc/self/cgroup': '4:cpu,cpuacct:/docker/x\n3:memory:/docker/x\n',
      'proc/self/mountinfo': VERSION_1, 'sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us': '600000\n',
      'sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us': '100000\n',
      'sys/fs/cgroup/memory/memory.limit_in_bytes': f'{9 * GB}\n',
      'sys/fs/cgroup/memory/memory.usage_in_bytes': '0\n'}, 3),
]
failed = 0
for files, wanted in CASES:
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        given = jobs.jobs(2500, 16, root)
    if given != wanted:
        failed += 1
        print(f'FAILED {files}: {given} jobs, {wanted} expected')
print(f'{len(CASES) - failed} passed, {failed} failed')
sys.exit(bool(failed))
