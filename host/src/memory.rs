//! How much memory the process may use.

use std::fs;
use std::path::Path;

/// Bytes that the process may use: the machine's memory, or the least limit of the control groups that the process is in (a
/// container's, a service's). None where the system does not say.
pub fn usable_bytes() -> Option<u64> {
    usable_under(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn usable_under(proc: &Path, groups: &Path) -> Option<u64> {
    let machine = fs::read_to_string(proc.join("meminfo")).ok().and_then(|text| total_of(&text));
    let mine = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let limits = mine.lines().filter_map(|line| {
        // hierarchy:controllers:path; version 2 is hierarchy 0 without controllers.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        match controllers {
            "" => least_limit(groups, path, "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                least_limit(&groups.join("memory"), path, "memory.limit_in_bytes")
            }
            _ => None,
        }
    });
    machine.into_iter().chain(limits).min()
}

/// The least limit of a group and those around it, each of which holds. Inside a container the path may be the host's: what is
/// not there is passed over, up to the container's own root.
fn least_limit(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    let around = group.ancestors().take_while(|at| at.starts_with(root));
    // "max", or in version 1 a number above all memory, is no limit.
    around.filter_map(|at| fs::read_to_string(at.join(file)).ok()?.trim().parse().ok()).min()
}

/// `MemTotal`, in bytes.
fn total_of(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_holds() {
        let folder = tempfile::tempdir().expect("there is room");
        let (proc, groups) = (folder.path().join("proc"), folder.path().join("groups"));
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("there is room");
            fs::write(path, text).expect("there is room");
        };
        assert_eq!(usable_under(&proc, &groups), None, "a system that says nothing");
        write("proc/meminfo", "MemFree:  1 kB\nMemTotal:       2048 kB\n");
        assert_eq!(usable_under(&proc, &groups), Some(2 << 20), "no group");

        write("proc/self/cgroup", "5:cpu,memory:/a/b\n0::/c/d\n");
        write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("groups/memory.max", "max\n");
        assert_eq!(usable_under(&proc, &groups), Some(2 << 20), "no limit, and groups that are not there");
        write("groups/memory/a/memory.limit_in_bytes", "1500000\n");
        assert_eq!(usable_under(&proc, &groups), Some(1_500_000), "version 1, the group around");
        write("groups/c/d/memory.max", "1400000\n");
        assert_eq!(usable_under(&proc, &groups), Some(1_400_000), "version 2");
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(usable_bytes().is_some_and(|bytes| bytes > 16 << 20));
    }
}
