/*
 * /proc/self/cgroup names the group in each hierarchy ("0::/a/b" in version 2,
 * "4:cpu,cpuacct:/a/b" in version 1). A quota may sit on any ancestor, so the path is walked up to
 * its root and the smallest one counts. Inside a container the path often does not exist below the
 * mount; walking up then arrives at the mount itself, which is the container's own group.
 */
#include "engine/base/cpu_quota.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/attr.h"

enum { PATH_BYTES = 4096 };

/* Keeps the smaller of two quotas in CPUs; 0 stands for none. */
static void keep_smaller(int32_t *cpus, int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0) {
        return;
    }
    int64_t whole = MIN(MAX(quota / period, 1), INT32_MAX);
    if (*cpus == 0 || whole < *cpus) {
        *cpus = (int32_t)whole;
    }
}

static bool read_line(const char *folder, const char *name, char *out, int out_bytes)
{
    char path[PATH_BYTES];
    int count = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (count < 0 || count >= (int)sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool good = fgets(out, out_bytes, file) != NULL;
    (void)fclose(file);
    return good;
}

/* cpu.max holds "quota period" or "max period". */
static void read_v2(const char *folder, int32_t *cpus)
{
    char line[64];
    long long quota, period;
    if (read_line(folder, "cpu.max", line, sizeof line) &&
        sscanf(line, "%lld %lld", &quota, &period) == 2) {
        keep_smaller(cpus, quota, period);
    }
}

/* cpu.cfs_quota_us is -1 without a quota. */
static void read_v1(const char *folder, int32_t *cpus)
{
    char line[64];
    long long quota, period;
    if (read_line(folder, "cpu.cfs_quota_us", line, sizeof line) &&
        sscanf(line, "%lld", &quota) == 1 &&
        read_line(folder, "cpu.cfs_period_us", line, sizeof line) &&
        sscanf(line, "%lld", &period) == 1) {
        keep_smaller(cpus, quota, period);
    }
}

/* Reads the group and all its ancestors: `mount` + `hierarchy` + `group`, then upwards. */
static void walk_up(const char *mount, const char *hierarchy, const char *group,
    void (*read)(const char *folder, int32_t *cpus), int32_t *cpus)
{
    char folder[PATH_BYTES];
    int base = snprintf(folder, sizeof folder, "%s%s", mount, hierarchy);
    if (base < 0 || base >= (int)sizeof folder) {
        return;
    }
    int whole = snprintf(folder, sizeof folder, "%s%s%s", mount, hierarchy, group);
    if (whole < 0 || whole >= (int)sizeof folder) {
        folder[base] = '\0';
    }
    for (;;) {
        read(folder, cpus);
        char *slash = strrchr(folder + base, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

static bool names_cpu(const char *controllers)
{
    for (const char *at = controllers; *at != '\0';) {
        size_t count = strcspn(at, ",");
        if (count == 3 && memcmp(at, "cpu", 3) == 0) {
            return true;
        }
        at += count + (at[count] == ',');
    }
    return false;
}

int32_t cpu_quota_read(const char *groups_file, const char *mount)
{
    FILE *file = fopen(groups_file, "re");
    if (file == NULL) {
        return 0;
    }
    int32_t cpus = 0;
    char line[PATH_BYTES];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        controllers++;
        *group = '\0';
        group++;
        if (*controllers == '\0') {
            walk_up(mount, "", group, read_v2, &cpus);
        } else if (names_cpu(controllers)) {
            char hierarchy[PATH_BYTES + 1];
            (void)snprintf(hierarchy, sizeof hierarchy, "/%s", controllers);
            walk_up(mount, hierarchy, group, read_v1, &cpus);
            walk_up(mount, "/cpu", group, read_v1, &cpus);
        }
    }
    (void)fclose(file);
    return cpus;
}
