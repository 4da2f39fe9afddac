//! What the program takes a machine for, on trees of `/proc` and `/sys` as boards have them.
//!
//! The numbers are those that kernels show on such boards: capacities of an RK3588 follow from its
//! device tree (`capacity-dmips-mhz` of 530 and 1024) and the clocks of one chip.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use runtime::cpu::{
    Cores, Governor, Kinds, MemoryLimits, Processors, Root, State, Throttled, memory_available,
    oom_score_adj,
};
use runtime::sys;
use tests::{HOST, model, run_host};

const A55: &str = "0x00000000412fd050\n";
const A72: &str = "0x00000000410fd083\n";
const A76: &str = "0x00000000414fd0b1\n";

/// A folder that holds `proc` and `sys`, gone when it is dropped.
struct Tree(PathBuf);

impl Tree {
    /// An empty one.
    fn new(name: &str) -> Tree {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("machine-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Tree(folder)
    }

    fn root(&self) -> Root<'_> {
        Root::at(self.0.to_str().unwrap())
    }

    /// Writes a file; `path` starts with a slash.
    fn put(&self, path: &str, contents: impl AsRef<[u8]>) -> &Tree {
        let path = self.0.join(&path[1..]);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    /// Writes a file of each of some processors.
    fn cpus(&self, cpus: impl IntoIterator<Item = u32>, file: &str, contents: &str) -> &Tree {
        for cpu in cpus {
            self.put(
                &format!("/sys/devices/system/cpu/cpu{cpu}/{file}"),
                contents,
            );
        }
        self
    }

    fn among(&self, mask: u64) -> (Vec<u32>, usize) {
        let found = Processors::among(self.root(), mask).expect("the mask is not empty");
        (found.cpus.to_vec(), found.fastest)
    }

    /// Four Cortex-A55, then two times two Cortex-A76 of which one pair was rated for less.
    fn rk3588(name: &str) -> Tree {
        let tree = Tree::new(name);
        tree.put("/sys/devices/system/cpu/online", "0-7\n");
        for (cpus, capacity, frequency, midr) in [
            (0..4, "397\n", "1800000\n", A55),
            (4..6, "983\n", "2304000\n", A76),
            (6..8, "1024\n", "2400000\n", A76),
        ] {
            tree.cpus(cpus.clone(), "cpu_capacity", capacity)
                .cpus(cpus.clone(), "cpufreq/cpuinfo_max_freq", frequency)
                .cpus(cpus.clone(), "cpufreq/scaling_max_freq", frequency)
                .cpus(cpus.clone(), "cpufreq/scaling_cur_freq", frequency)
                .cpus(cpus, "regs/identification/midr_el1", midr);
        }
        tree
    }

    /// Four equal cores, and its firmware's word on them.
    fn rpi4(name: &str) -> Tree {
        let tree = Tree::new(name);
        tree.put("/sys/devices/system/cpu/online", "0-3\n")
            .put(
                "/sys/devices/platform/soc/soc:firmware/get_throttled",
                "0\n",
            )
            .cpus(0..4, "cpu_capacity", "1024\n")
            .cpus(0..4, "cpufreq/cpuinfo_max_freq", "1800000\n")
            .cpus(0..4, "cpufreq/scaling_max_freq", "1800000\n")
            .cpus(0..4, "cpufreq/scaling_cur_freq", "1800000\n")
            .cpus(0..4, "regs/identification/midr_el1", A72);
        for cpu in 0..4 {
            tree.cpus([cpu], "topology/thread_siblings_list", &format!("{cpu}\n"));
        }
        tree
    }

    fn state(&self, cpus: &[u32]) -> State {
        State::read(self.root(), cpus)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn both_big_clusters_of_an_rk3588_are_its_fastest() {
    let tree = Tree::rk3588("rk3588");
    assert_eq!(tree.among(0xff), (vec![6, 7, 4, 5, 0, 1, 2, 3], 4));
    let found = Processors::among(tree.root(), 0xff).unwrap();
    assert_eq!(found.assign(4)[..], [6, 7, 4, 5]);
    assert_eq!(found.assign(9)[..], [6, 7, 4, 5, 0, 1, 2, 3, 6]);
    assert_eq!(Cores::of(tree.root(), &found.assign(4)), Cores::OutOfOrder);
    assert_eq!(Cores::of(tree.root(), &found.assign(5)), Cores::InOrder);
    let kinds = Kinds::read(tree.root());
    let counts = kinds.0.iter().map(|kind| (kind.name.as_str(), kind.count));
    assert!(
        counts.eq([("Cortex-A55", 4), ("Cortex-A76", 4)]),
        "{kinds:?}"
    );
    assert_eq!(kinds.to_string(), "Cortex-A55+Cortex-A76");
}

#[test]
fn frequencies_tell_clusters_where_capacities_do_not() {
    let tree = Tree::rk3588("no-capacity");
    // As where the device tree says nothing of them.
    tree.cpus(0..8, "cpu_capacity", "1024\n");
    assert_eq!(tree.among(0xff), (vec![6, 7, 4, 5, 0, 1, 2, 3], 4));
    for cpu in 0..8 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity");
        fs::remove_file(tree.0.join(folder)).unwrap();
    }
    assert_eq!(tree.among(0xff), (vec![6, 7, 4, 5, 0, 1, 2, 3], 4));
}

#[test]
fn range_is_ordered_within_itself() {
    let tree = Tree::rk3588("range");
    assert_eq!(tree.among(0b0000_1111), (vec![0, 1, 2, 3], 4));
    assert_eq!(tree.among(0b0001_1000), (vec![4, 3], 1));
    assert_eq!(tree.among(1 << 7), (vec![7], 1));
    assert!(Processors::among(tree.root(), 0).is_none());
    // A processor that this tree knows nothing of comes last.
    assert_eq!(tree.among(1 << 63 | 0b0001_0001), (vec![4, 0, 63], 1));
}

#[test]
fn equal_cores_are_one_cluster_in_their_own_order() {
    let tree = Tree::rpi4("rpi4");
    assert_eq!(tree.among(0b1111), (vec![0, 1, 2, 3], 4));
    assert_eq!(Kinds::read(tree.root()).to_string(), "Cortex-A72");
    assert_eq!(Tree::new("empty").among(0b1011), (vec![0, 1, 3], 3));
}

/// Two performance cores with two threads each, one of them favoured, and four efficient cores.
fn hybrid(name: &str) -> Tree {
    let tree = Tree::new(name);
    tree.put("/sys/devices/system/cpu/online", "0-7\n")
        .put(
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: 13th Gen Intel(R) Core(TM)\n",
        )
        .cpus(0..8, "cpu_capacity", "1024\n")
        .cpus(0..2, "cpufreq/cpuinfo_max_freq", "4900000\n")
        .cpus(2..4, "cpufreq/cpuinfo_max_freq", "5200000\n")
        .cpus(4..8, "cpufreq/cpuinfo_max_freq", "3900000\n")
        .cpus(0..2, "topology/thread_siblings_list", "0-1\n")
        .cpus(2..4, "topology/thread_siblings_list", "2-3\n");
    for cpu in 4..8 {
        tree.cpus([cpu], "topology/thread_siblings_list", &format!("{cpu}\n"));
    }
    tree
}

#[test]
fn favoured_core_of_a_hybrid_is_no_cluster_of_its_own() {
    let tree = hybrid("hybrid");
    // Second threads come last, after the efficient cores.
    assert_eq!(tree.among(0xff), (vec![2, 0, 4, 5, 6, 7, 3, 1], 2));
    assert_eq!(tree.among(0xf0), (vec![4, 5, 6, 7], 4));
    let kinds = Kinds::read(tree.root());
    assert_eq!(kinds.to_string(), "13th Gen Intel(R) Core(TM)");
    assert_eq!(kinds.0[0].count, 8);
}

#[test]
fn second_thread_of_a_core_counts_only_if_the_first_is_not_there() {
    let tree = Tree::new("threads");
    for cpu in 0..4 {
        let pair = format!("{cpu},{}\n", cpu + 4);
        tree.cpus([cpu, cpu + 4], "topology/thread_siblings_list", &pair)
            .cpus([cpu, cpu + 4], "cpufreq/cpuinfo_max_freq", "3600000\n");
    }
    assert_eq!(tree.among(0xff), (vec![0, 1, 2, 3, 4, 5, 6, 7], 4));
    assert_eq!(tree.among(0xf0), (vec![4, 5, 6, 7], 4));
    assert_eq!(tree.among(0b0011_0001), (vec![0, 5, 4], 2));
}

#[test]
fn processors_that_are_switched_off_are_not_counted() {
    let tree = Tree::rk3588("off");
    tree.put("/sys/devices/system/cpu/online", "0-1,4-5\n");
    for cpu in [2, 3, 6, 7] {
        // What Linux leaves of them.
        let folder = tree.0.join(format!("sys/devices/system/cpu/cpu{cpu}"));
        fs::remove_dir_all(&folder).unwrap();
        tree.cpus([cpu], "online", "0\n");
    }
    assert_eq!(tree.among(0b0011_0011), (vec![4, 5, 0, 1], 2));
    let counts = Kinds::read(tree.root()).0;
    assert!(counts.iter().all(|kind| kind.count == 2), "{counts:?}");
}

#[test]
fn clocks_and_heat_are_those_of_the_processors_in_use() {
    let tree = Tree::rk3588("clocks");
    tree.cpus(4..6, "cpufreq/scaling_cur_freq", "1200000\n")
        .put("/sys/class/thermal/thermal_zone0/temp", "41000\n")
        .put("/sys/class/thermal/thermal_zone3/temp", "62500\n");
    let state = tree.state(&[6, 7, 4, 5]);
    assert_eq!(
        (state.mhz, state.mhz_max, state.celsius),
        (Some(1800), Some(2400), Some(62))
    );
    assert_eq!(tree.state(&[0]).mhz_max, Some(1800));
    let cold = Tree::new("cold");
    cold.put("/sys/class/thermal/thermal_zone0/temp", "-12000\n");
    assert_eq!(cold.state(&[0]).celsius, Some(-12));
}

#[test]
fn nothing_to_read_says_nothing() {
    let state = Tree::new("nothing").state(&[0, 1]);
    assert_eq!(state, State::default());
    assert_eq!(state.throttled_since(&state), Throttled::Unknown);
}

#[test]
fn every_source_of_throttling_is_heard() {
    let tree = Tree::rk3588("throttling");
    let cpus = [4, 5, 6, 7];
    let device = |index: u32, kind: &str, state: &str| {
        tree.put(
            &format!("/sys/class/thermal/cooling_device{index}/type"),
            kind,
        )
        .put(
            &format!("/sys/class/thermal/cooling_device{index}/cur_state"),
            state,
        );
    };
    device(0, "pwm-fan\n", "3\n");
    device(1, "cpufreq-cpu4\n", "0\n");
    tree.cpus(4..8, "thermal_throttle/core_throttle_count", "7\n");
    let before = tree.state(&cpus);
    let since = || tree.state(&cpus).throttled_since(&before);
    assert_eq!(since(), Throttled::No); // the fan turns: that is what it is for

    device(1, "cpufreq-cpu4\n", "2\n");
    assert_eq!(since(), Throttled::Yes("cooling"));
    let cooled = tree.state(&cpus);
    device(1, "cpufreq-cpu4\n", "0\n");
    assert_eq!(since(), Throttled::No);
    let until_then = tree.state(&cpus).throttled_since(&cooled);
    assert_eq!(until_then, Throttled::Yes("cooling"));

    tree.cpus([5], "cpufreq/scaling_max_freq", "1200000\n");
    assert_eq!(since(), Throttled::Yes("limit"));
    tree.cpus([5], "cpufreq/scaling_max_freq", "2304000\n");

    tree.cpus([6], "thermal_throttle/core_throttle_count", "8\n");
    assert_eq!(since(), Throttled::Yes("count"));
    tree.cpus([6], "thermal_throttle/core_throttle_count", "7\n");

    tree.cpus(4..8, "cpufreq/scaling_cur_freq", "2200000\n");
    assert_eq!(since(), Throttled::No); // by less than a tenth
    tree.cpus(4..8, "cpufreq/scaling_cur_freq", "2000000\n");
    assert_eq!(since(), Throttled::Yes("frequency"));
    // Those that work elsewhere do not count.
    let (little, before) = ([0, 1], tree.state(&[0, 1]));
    assert_eq!(tree.state(&little).throttled_since(&before), Throttled::No);
}

#[test]
fn firmware_of_a_raspberry_pi_is_heard() {
    for soc in ["soc", "soc@107c000000"] {
        let tree = Tree::rpi4("firmware");
        let path = format!("/sys/devices/platform/{soc}/{soc}:firmware/get_throttled");
        fs::remove_dir_all(tree.0.join("sys/devices/platform")).unwrap();
        for (before, now, expected) in [
            ("0\n", "0\n", Throttled::No),
            ("0\n", "80008\n", Throttled::Yes("firmware")), // soft limit of temperature, now
            ("0\n", "e0000\n", Throttled::Yes("firmware")), // and over again
            ("e0000\n", "e0000\n", Throttled::No),          // before this run
            ("0\n", "50005\n", Throttled::Yes("firmware")), // for lack of voltage
            ("0\n", "10001\n", Throttled::No),              // low voltage alone
            ("0\n", "nonsense\n", Throttled::No),           // the clocks say so
        ] {
            let before = tree.put(&path, before).state(&[0, 1, 2, 3]);
            let state = tree.put(&path, now).state(&[0, 1, 2, 3]);
            assert_eq!(state.throttled_since(&before), expected, "{now:?}");
        }
    }
}

#[test]
fn governor_that_stays_slow_is_told_from_those_that_are_called_alike() {
    for (governor, driver, is_slow) in [
        ("powersave\n", "cpufreq-dt\n", true),
        ("powersave\n", "acpi-cpufreq\n", true),
        ("powersave\n", "intel_pstate\n", false),
        ("powersave\n", "amd-pstate-epp\n", false),
        ("powersave\n", "intel_cpufreq\n", true), // the passive mode, with generic governors
        ("schedutil\n", "cpufreq-dt\n", false),
    ] {
        let tree = Tree::new("governor");
        tree.cpus([4], "cpufreq/scaling_governor", governor).cpus(
            [4],
            "cpufreq/scaling_driver",
            driver,
        );
        let found = Governor::read(tree.root(), 4).unwrap();
        assert_eq!(
            (found.name.as_str(), found.is_slow),
            (governor.trim(), is_slow)
        );
        assert_eq!(Governor::read(tree.root(), 0), None);
    }
}

fn limits(max: u64, high: u64) -> MemoryLimits {
    let some = |bytes| (bytes > 0).then_some(bytes);
    MemoryLimits {
        max: some(max),
        high: some(high),
    }
}

#[test]
fn least_limit_from_a_group_upwards_counts() {
    let tree = Tree::new("cgroup-2");
    let group = "/sys/fs/cgroup/system.slice/a:b.service";
    tree.put("/proc/self/cgroup", "0::/system.slice/a:b.service\n")
        .put(&format!("{group}/memory.max"), "max\n")
        .put(&format!("{group}/memory.high"), "max\n");
    assert_eq!(MemoryLimits::read(tree.root()), limits(0, 0));
    tree.put("/sys/fs/cgroup/system.slice/memory.max", "900000\n")
        .put(&format!("{group}/memory.high"), "700000\n");
    assert_eq!(MemoryLimits::read(tree.root()), limits(900_000, 700_000));
    assert_eq!(MemoryLimits::read(tree.root()).least(), Some(700_000));
    tree.put(&format!("{group}/memory.max"), "500000\n")
        .put("/sys/fs/cgroup/system.slice/memory.high", "800000\n");
    assert_eq!(MemoryLimits::read(tree.root()), limits(500_000, 700_000));
    assert_eq!(MemoryLimits::read(tree.root()).least(), Some(500_000));
}

#[test]
fn limits_of_version_1_count_and_its_word_for_none_does_not() {
    let tree = Tree::new("cgroup-1");
    let groups = "9:cpuset:/\n4:memory,hugetlb:/docker/1f\n1:name=systemd:/\n0::/\n";
    tree.put("/proc/self/cgroup", groups).put(
        "/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes",
        "9223372036854771712\n",
    );
    assert_eq!(MemoryLimits::read(tree.root()), limits(0, 0));
    // A container that sees its own group as the root.
    tree.put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n");
    assert_eq!(MemoryLimits::read(tree.root()), limits(300_000, 0));
}

#[test]
fn group_with_a_long_path_has_its_limit_read() {
    let tree = Tree::new("cgroup-long");
    let path = format!("/{}", ["a-group-of-a-deep-tree"; 60].join("/"));
    tree.put("/proc/self/cgroup", format!("0::{path}\n"))
        .put(&format!("/sys/fs/cgroup{path}/memory.max"), "123\n");
    assert_eq!(MemoryLimits::read(tree.root()), limits(123, 0));
}

#[test]
fn memory_that_is_left_and_the_order_of_ending_are_read() {
    let tree = Tree::new("memory");
    assert_eq!(memory_available(tree.root()), None);
    assert_eq!(oom_score_adj(tree.root()), None);
    tree.put(
        "/proc/meminfo",
        "MemTotal: 2000 kB\nMemAvailable:  1500 kB\n",
    )
    .put("/proc/self/oom_score_adj", "-900\n");
    assert_eq!(memory_available(tree.root()), Some(1500 << 10));
    assert_eq!(oom_score_adj(tree.root()), Some(-900));
}

#[test]
fn garbage_and_endless_files_are_passed_over() {
    let long: Vec<Vec<u8>> = [
        &b"9"[..],
        b"\xff\x00",
        b"0::/a\n",
        b"/",
        b"0-3,",
        b"model name : ",
    ]
    .iter()
    .map(|part| part.repeat(1 << 18))
    .collect();
    let short = [
        "",
        "\n",
        "-1\n",
        "max\n",
        "18446744073709551615\n",
        "18446744073709551616\n",
    ];
    let all = short
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .chain(long);
    for (index, contents) in all.enumerate() {
        let tree = Tree::new(&format!("garbage-{index}"));
        for path in [
            "/sys/devices/system/cpu/online",
            "/sys/devices/platform/soc/soc:firmware/get_throttled",
            "/sys/class/thermal/thermal_zone0/temp",
            "/sys/class/thermal/cooling_device0/type",
            "/sys/class/thermal/cooling_device0/cur_state",
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/a/memory.high",
            "/proc/self/cgroup",
            "/proc/self/oom_score_adj",
            "/proc/cpuinfo",
            "/proc/meminfo",
        ] {
            tree.put(path, &contents);
        }
        let per_cpu = [
            "cpu_capacity",
            "cpufreq/cpuinfo_max_freq",
            "cpufreq/scaling_cur_freq",
            "cpufreq/scaling_max_freq",
            "cpufreq/scaling_governor",
            "cpufreq/scaling_driver",
            "topology/thread_siblings_list",
            "regs/identification/midr_el1",
            "thermal_throttle/core_throttle_count",
        ];
        for file in per_cpu {
            let cpu = "/sys/devices/system/cpu/cpu0";
            tree.put(&format!("{cpu}/{file}"), &contents);
        }
        let root = tree.root();
        let (cpus, fastest) = tree.among(u64::MAX);
        assert!(
            cpus.len() == 64 && (1..=64).contains(&fastest),
            "{index}: {fastest}"
        );
        let state = tree.state(&cpus);
        state.throttled_since(&State::default());
        state.throttled_since(&state);
        Governor::read(root, 0);
        Kinds::read(root).to_string();
        MemoryLimits::read(root);
        memory_available(root);
        oom_score_adj(root);
    }
}

#[test]
fn processor_that_is_named_is_the_one_that_is_used() {
    let model = model("smollm2");
    let base = [
        "-m",
        model.to_str().unwrap(),
        "--raw",
        "-p",
        "1, 2,",
        "-n",
        "2",
        "--cpu-range",
    ];
    let allowed = run_host(&[&base[..], &["0-63"]].concat(), b"");
    for list in ["0", "0,63", "0-0"] {
        let output = run_host(&[&base[..], &[list]].concat(), b"");
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(output.stdout, allowed.stdout);
        let start = output.stderr.lines().next().unwrap();
        assert!(start.contains(" threads=1 "), "{start}");
    }
}

#[test]
fn processors_that_are_not_there_are_refused_in_a_line() {
    for (list, message) in [
        (
            "63",
            "--cpu-range names no processor that this process may use",
        ),
        (
            "64",
            "flag --cpu-range takes a list as 0-3,6, not \\\"64\\\"",
        ),
        (
            "3-1",
            "flag --cpu-range takes a list as 0-3,6, not \\\"3-1\\\"",
        ),
        (
            "0,",
            "flag --cpu-range takes a list as 0-3,6, not \\\"0,\\\"",
        ),
    ] {
        let output = run_host(&["kernels", "--cpu-range", list], b"");
        assert_eq!(output.code, 2);
        assert_eq!(output.stderr.lines().count(), 1);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
}

/// The prompt's room is a reservation of which a page or two are used: with a huge page it would be
/// 32 MiB more than planned where pages have 16 KiB.
#[test]
fn sparse_reservation_takes_no_huge_pages() {
    if !fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap() {
        return; // this kernel has none
    }
    let address = sys::reserve_sparse(64 << 20).unwrap().as_ptr().addr();
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_ours = false;
    let flags = maps.lines().find_map(|line| {
        let (start, end) = line.split(' ').next()?.split_once('-').unwrap_or_default();
        let bound = |text| usize::from_str_radix(text, 16).ok();
        if let (Some(start), Some(end)) = (bound(start), bound(end)) {
            is_ours = (start..end).contains(&address);
        }
        is_ours.then(|| line.strip_prefix("VmFlags:"))?
    });
    let flags = flags.expect("the reservation is mapped");
    assert!(flags.split(' ').any(|flag| flag == "nh"), "{flags}");
}

#[test]
fn start_shows_how_soon_the_kernel_would_end_the_process() {
    let model = model("smollm2");
    // Whoever may not make it sooner than it is may make it later.
    let script = "echo 700 > /proc/self/oom_score_adj && exec \"$0\" \"$@\"";
    let run = [
        "-m",
        model.to_str().unwrap(),
        "-p",
        "x",
        "-n",
        "1",
        "--log-format",
        "json",
    ];
    let output = Command::new("sh")
        .args(["-c", script, HOST.linked().to_str().unwrap()])
        .args(run)
        .output()
        .unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    let start = log.lines().next().unwrap();
    let start: serde_json::Value = serde_json::from_str(start).unwrap();
    assert_eq!(
        (&start["event"], &start["oom_score_adj"]),
        (&"start".into(), &700.into())
    );
}
