/*
 * The CPU quota of the control group this process is in, versions 1 and 2. Private to threads.c
 * and its test, which passes a made-up tree.
 */
#ifndef ENGINE_BASE_CPU_QUOTA_H
#define ENGINE_BASE_CPU_QUOTA_H

#include <stdint.h>

/* Whole CPUs the quotas leave, rounded down, at least 1; 0 when no quota is set. `groups_file` is
 * /proc/self/cgroup, `mount` is /sys/fs/cgroup. */
int32_t cpu_quota_read(const char *groups_file, const char *mount);

#endif
