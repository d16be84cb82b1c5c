#!/usr/bin/env python3
"""Prints how many jobs may run at once: as many as there are processors and memory for, by the limits of control groups
(containers set these) as well as by what the machine has.

usage: jobs.py [MEGABYTES [ROOT]]    memory of one job, 0 when it needs none worth counting; ROOT stands for /, for tests
"""

import math
import os
import sys


def read(path):
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read()
    except OSError:
        return ''


def number(text):
    """The number that a text begins with; None for `max` and for what is negative."""
    word = (text.split() or [''])[0]
    return int(word) if word.isdigit() else None


def named(text, name):
    for line in text.splitlines():
        words = line.replace(':', ' ').split()
        if len(words) > 1 and words[0] == name:
            return number(words[1]) or 0
    return 0


def groups(root):
    """Folder and controller ('' is version 2) of each group that this process is in, and of those above it."""
    mounts = []
    for line in read(root + '/proc/self/mountinfo').splitlines():
        before, dash, after = line.partition(' - ')
        before, after = before.split(' '), after.split(' ')
        if dash and len(before) >= 5 and len(after) >= 3:
            mounts.append((before[3], before[4], after[0], after[2].split(',')))
    for line in read(root + '/proc/self/cgroup').splitlines():
        parts = line.split(':', 2)
        if len(parts) < 3:
            continue
        for controller in ('', 'cpu', 'memory'):
            if parts[1] != '' if controller == '' else controller not in parts[1].split(','):
                continue
            for mount_root, point, kind, options in mounts:
                if kind != 'cgroup2' if controller == '' else kind != 'cgroup' or controller not in options:
                    continue
                path = parts[2]
                if mount_root != '/' and path.startswith(mount_root):
                    path = path[len(mount_root):]
                if path.startswith('/..'):
                    path = ''
                path = path.rstrip('/')
                while True:
                    yield root + point + path, controller
                    if not path:
                        break
                    path = path.rpartition('/')[0]


def limits(root=''):
    """Processors by quota and bytes that are left; each None without a limit."""
    quotas, memory = [], []
    for group, controller in groups(root):
        if controller == '':
            words = read(group + '/cpu.max').split()
            quotas.append((number(words[0]), number(words[1])) if len(words) > 1 else (None, None))
            memory += [(number(read(f'{group}/{most}')), number(read(group + '/memory.current')) or 0,
                        named(read(group + '/memory.stat'), 'inactive_file')) for most in ('memory.max', 'memory.high')]
        elif controller == 'cpu':
            quotas.append((number(read(group + '/cpu.cfs_quota_us')), number(read(group + '/cpu.cfs_period_us'))))
        else:
            memory.append((number(read(group + '/memory.limit_in_bytes')),
                           number(read(group + '/memory.usage_in_bytes')) or 0,
                           named(read(group + '/memory.stat'), 'total_inactive_file')))
    shares = [quota / period for quota, period in quotas if quota and period]
    left = [max(most - max(used - files, 0), 0) for most, used, files in memory if most is not None]
    return min(shares, default=None), min(left, default=None)


def jobs(megabytes, processors, root=''):
    quota, memory = limits(root)
    if quota is not None:
        processors = min(processors, math.ceil(quota))
    free = named(read(root + '/proc/meminfo'), 'MemAvailable') * 1024
    known = [bytes_left for bytes_left in (memory, free or None) if bytes_left is not None]
    if megabytes > 0 and known:
        processors = min(processors, min(known) // (megabytes * 1000 * 1000))
    return max(processors, 1)


if __name__ == '__main__':
    print(jobs(int(sys.argv[1]) if len(sys.argv) > 1 else 0, len(os.sched_getaffinity(0)),
               sys.argv[2] if len(sys.argv) > 2 else ''))
