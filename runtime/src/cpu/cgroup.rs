//! Memory limits of control groups.

use super::Root;

/// What the control groups of this process allow it, bytes: its own, and those that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryLimits {
    /// Beyond this the kernel ends a process of the group: the least `memory.max` of version 2, or
    /// `memory.limit_in_bytes` of version 1 where that still rules memory.
    pub max: Option<u64>,
    /// Beyond this the kernel makes the group wait: the least `memory.high`. Version 1 has none.
    pub high: Option<u64>,
}

impl MemoryLimits {
    /// Those of this process.
    pub fn read(root: Root<'_>) -> MemoryLimits {
        let mut buffer = [0; 8192]; // a path has 4096 bytes at most, and version 1 has a dozen
        let groups = root.text(format_args!("/proc/self/cgroup"), &mut buffer);
        let mut limits = MemoryLimits::default();
        for group in groups
            .unwrap_or_default()
            .lines()
            .filter_map(Group::of_line)
        {
            match group.hierarchy {
                Hierarchy::Unified => {
                    limits.max = least(limits.max, group.limit(root, "memory.max"));
                    limits.high = least(limits.high, group.limit(root, "memory.high"));
                }
                Hierarchy::Memory => {
                    limits.max = least(limits.max, group.limit(root, "memory.limit_in_bytes"));
                }
            }
        }
        limits
    }

    /// The tightest of them.
    pub fn least(self) -> Option<u64> {
        least(self.max, self.high)
    }
}

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// A tree of groups that may limit memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hierarchy {
    /// The one of version 2.
    Unified,
    /// That of version 1 with the memory controller.
    Memory,
}

/// A control group that may limit memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Group<'a> {
    hierarchy: Hierarchy,
    /// Its path in the tree, empty for the root.
    path: &'a str,
}

impl<'a> Group<'a> {
    /// The group of a line of `/proc/self/cgroup`, which reads `number:controllers:path`.
    fn of_line(line: &'a str) -> Option<Group<'a>> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let hierarchy = match controllers {
            "" => Hierarchy::Unified,
            _ if controllers.split(',').any(|name| name == "memory") => Hierarchy::Memory,
            _ => return None,
        };
        let path = path.trim_end_matches('/');
        Some(Group { hierarchy, path })
    }

    /// The least number that the files called `name` have, from this group up to the root. In a
    /// container the path may be one outside of it: what is there of it counts.
    fn limit(self, root: Root<'_>, name: &str) -> Option<u64> {
        /// From here on a number of version 1 means that there is no limit.
        const UNLIMITED: u64 = 1 << 62;
        let mount = match self.hierarchy {
            Hierarchy::Unified => "/sys/fs/cgroup",
            Hierarchy::Memory => "/sys/fs/cgroup/memory",
        };
        let upwards = core::iter::successors(Some(self.path), |path| {
            path.rsplit_once('/').map(|(parent, _)| parent)
        });
        // A path has 2048 parts at most: that bounds the files looked for.
        upwards
            .filter_map(|path| root.number(format_args!("{mount}{path}/{name}")))
            .filter(|&limit| limit < UNLIMITED)
            .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_either_version_names_its_group() {
        let found = |line| Group::of_line(line).map(|group| (group.hierarchy, group.path));
        let unified = Hierarchy::Unified;
        assert_eq!(
            found("0::/user.slice/a:b"),
            Some((unified, "/user.slice/a:b"))
        );
        assert_eq!(found("0::/"), Some((unified, "")));
        let memory = Hierarchy::Memory;
        assert_eq!(
            found("4:cpu,memory:/docker/1f/"),
            Some((memory, "/docker/1f"))
        );
        assert_eq!(found("8:pids:/memory"), None);
        assert_eq!(found("nonsense"), None);
    }
}
