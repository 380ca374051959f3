/* /proc/self/stat is one line whose second field may hold anything in parentheses: fields are
 * counted from the last ')'. */
#include "server/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "engine/base/buf.h"

static void plain(
    struct buf *out, const char *name, const char *type, const char *help, double value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

/* Field `wanted` of proc(5)'s numbering, the state being field 3. */
static double stat_field(const char *line, int wanted)
{
    const char *at = strrchr(line, ')');
    double value = 0;
    for (int field = 2; at != NULL && field < wanted; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL && sscanf(at, "%lf", &value) == 1 ? value : 0;
}

static int count_files(void)
{
    int count = -1; /* the directory's own descriptor */
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return 0;
    }
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count;
}

static double boot_time(void)
{
    struct timespec now, since_boot;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    return (double)(now.tv_sec - since_boot.tv_sec) +
           (double)(now.tv_nsec - since_boot.tv_nsec) / 1e9;
}

void process_write(struct buf *out)
{
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    if (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        double ticks = (double)sysconf(_SC_CLK_TCK);
        plain(out, "process_cpu_seconds_total", "counter", "User and system CPU time.",
            (stat_field(line, 14) + stat_field(line, 15)) / ticks);
        plain(out, "process_start_time_seconds", "gauge", "Start, seconds since the epoch.",
            boot_time() + stat_field(line, 22) / ticks);
        plain(
            out, "process_virtual_memory_bytes", "gauge", "Virtual memory.", stat_field(line, 23));
        plain(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
            stat_field(line, 24) * (double)sysconf(_SC_PAGESIZE));
    }
    if (file != NULL) {
        fclose(file);
    }
    struct rlimit limit;
    plain(out, "process_open_fds", "gauge", "Open descriptors.", count_files());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        plain(
            out, "process_max_fds", "gauge", "Limit of open descriptors.", (double)limit.rlim_cur);
    }
}
