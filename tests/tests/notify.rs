//! What a service manager hears: a socket of the test's own stands in for systemd's, and the
//! messages are held to sd_notify(3) and sd_watchdog_enabled(3).

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tests::{HOST, mixed_model, model};

/// Nothing takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The watchdog of most tests.
const WATCHDOG: Duration = Duration::from_millis(400);

/// A file of the test's own.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("notify-{name}"))
}

/// A small model of random weights.
fn random_model(name: &str) -> String {
    let path = scratch(name).with_extension("gguf");
    fs::write(&path, mixed_model::gguf(21)).expect("a scratch file");
    path.to_str().expect("UTF-8").to_owned()
}

/// The manager's end.
struct Manager {
    socket: UnixDatagram,
    /// As the variable has it.
    name: String,
}

impl Manager {
    fn at_path(name: &str) -> Manager {
        // In a folder with a short name: a path of a socket has 107 bytes at most.
        let path = std::env::temp_dir().join(format!("rushlight-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path); // of a test before
        Manager {
            socket: UnixDatagram::bind(&path).expect("a socket"),
            name: path.to_str().expect("UTF-8").to_owned(),
        }
    }

    fn abstract_(name: &str) -> Manager {
        let name = format!("rushlight-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        Manager {
            socket: UnixDatagram::bind_addr(&address).expect("a socket"),
            name: format!("@{name}"),
        }
    }

    /// The next message, if one comes in time.
    fn hear_for(&self, time: Duration) -> Option<String> {
        let mut buffer = [0; 4096];
        let time = time.max(Duration::from_millis(1)); // none would be for ever
        self.socket.set_read_timeout(Some(time)).expect("a socket");
        match self.socket.recv(&mut buffer) {
            Ok(count) => Some(String::from_utf8(buffer[..count].to_vec()).expect("UTF-8")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The next message that is no ping.
    fn hear(&self) -> String {
        loop {
            let message = self.hear_for(PATIENCE).expect("a message");
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    /// Messages up to one, which is the last.
    fn hear_until(&self, last: &str) -> Vec<String> {
        let (began, mut heard) = (Instant::now(), Vec::new());
        while heard.last().is_none_or(|message| message != last) {
            // Pings may go on for ever.
            let message = self.hear_for(PATIENCE.saturating_sub(began.elapsed()));
            heard.push(message.unwrap_or_else(|| panic!("no {last:?} after {heard:?}")));
        }
        heard
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if !self.name.starts_with('@') {
            let _ = fs::remove_file(&self.name); // it may be gone
        }
    }
}

/// The program, started as systemd starts a service.
struct Service {
    child: Child,
    log: PathBuf,
}

impl Service {
    /// With a watchdog for its own process, and prompts from stdin.
    fn start(name: &str, manager: &Manager, arguments: &[&str]) -> Service {
        Service::start_with(
            name,
            arguments,
            &[("NOTIFY_SOCKET", &manager.name), ("WATCHDOG_PID", "$$")],
        )
    }

    /// With these variables, in which `$$` is the process's own number.
    fn start_with(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Service {
        let path = scratch(name).with_extension("log");
        // The number is known to whom it belongs.
        let script = "eval \"export WATCHDOG_PID=$WATCHDOG_PID\"; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(HOST.linked());
        command.args(arguments);
        command.env_remove("NOTIFY_SOCKET");
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        command.env("WATCHDOG_PID", "");
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(&path).expect("a log"));
        Service {
            child: command.spawn().expect("the program starts"),
            log: path,
        }
    }

    fn send(&mut self, line: &[u8]) {
        let input = self.child.stdin.as_mut().expect("stdin is piped");
        input.write_all(line).expect("the program reads");
    }

    fn close_input(&mut self) {
        self.child.stdin = None;
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program runs");
    }

    /// Ends its input, and waits for its end: exit code, text and log.
    fn end(mut self) -> (i32, Vec<u8>, String) {
        self.close_input();
        let output = self.child.wait_with_output().expect("a started program");
        let signal = output.status.signal().map(|signal| 128 + signal);
        let code = output.status.code().or(signal).unwrap_or(-1);
        let log = fs::read_to_string(&self.log).expect("the log");
        (code, output.stdout, log)
    }
}

/// Without the pings.
fn told(heard: &[String]) -> Vec<&str> {
    let heard = heard.iter().map(String::as_str);
    heard.filter(|&message| message != "WATCHDOG=1").collect()
}

#[test]
fn run_is_told_from_start_to_end() {
    let model = random_model("run");
    for manager in [Manager::at_path("run"), Manager::abstract_("run")] {
        let arguments = ["-m", &model, "--raw", "-n", "5", "-p", "Hi"];
        let mut service = Service::start("run", &manager, &arguments);
        service.close_input();
        let heard = manager.hear_until("STOPPING=1");
        let expected = [
            "STATUS=starting",
            "STATUS=loading 0 %",
            "READY=1\nSTATUS=answering",
            "STOPPING=1",
        ];
        assert_eq!(told(&heard), expected);
        let (ping, ready) = (
            heard.iter().position(|message| message == "WATCHDOG=1"),
            heard.iter().position(|message| message == expected[2]),
        );
        assert!(ping < ready, "no ping while it loads: {heard:?}");
        let (code, _, log) = service.end();
        assert_eq!(code, 0, "{log}");
        assert_eq!(manager.hear_for(Duration::ZERO), None);
    }
}

#[test]
fn console_pings_while_it_waits_and_tells_of_answers() {
    let model = random_model("console");
    let manager = Manager::abstract_("console");
    let arguments = ["-m", &model, "--raw", "-n", "5", "--console", "-"];
    let mut service = Service::start("console", &manager, &arguments);
    manager.hear_until("READY=1\nSTATUS=ready");
    let (began, mut last, mut pings) = (Instant::now(), Instant::now(), 0);
    while began.elapsed() < 5 * WATCHDOG {
        let message = manager.hear_for(WATCHDOG);
        assert_eq!(message.as_deref(), Some("WATCHDOG=1"), "{pings} pings");
        assert!(last.elapsed() < WATCHDOG, "{:?}", last.elapsed());
        (last, pings) = (Instant::now(), pings + 1);
    }
    assert!(pings >= 10, "{pings} pings in five times the watchdog");
    for _ in 0..2 {
        service.send(b"Hi\n");
        assert_eq!(manager.hear(), "STATUS=answering");
        assert_eq!(manager.hear(), "STATUS=ready");
    }
    service.signal(Signal::TERM);
    assert_eq!(manager.hear(), "STOPPING=1");
    let (code, _, log) = service.end();
    assert_eq!(code, 143, "{log}");
}

#[test]
fn long_work_pings_and_a_program_that_is_stopped_does_not() {
    // Loading it takes longer than it takes to be stopped.
    let model = model("tinyllama-synth");
    let manager = Manager::abstract_("long");
    let arguments = ["-m", model.to_str().expect("UTF-8"), "--raw", "-n", "2"];
    let mut service = Service::start("long", &manager, &arguments);
    service.send(&[b'x'; 300]);
    service.close_input();
    manager.hear_until("STATUS=loading 0 %");
    service.signal(Signal::STOP);
    while manager.hear_for(Duration::from_millis(50)).is_some() {} // said before
    assert_eq!(manager.hear_for(3 * WATCHDOG), None);
    service.signal(Signal::CONT);
    let loading = manager.hear();
    let percent = loading.strip_prefix("STATUS=loading ");
    let percent = percent.and_then(|rest| rest.strip_suffix(" %")?.parse::<u32>().ok());
    assert!(matches!(percent, Some(0..=100)), "{loading}");
    manager.hear_until("READY=1\nSTATUS=answering");
    // The prompt is one step of a second or more on one core of any machine.
    let mut last = Instant::now();
    loop {
        let message = manager.hear_for(PATIENCE).expect("a message");
        assert!(last.elapsed() < WATCHDOG, "{:?}: {message}", last.elapsed());
        last = Instant::now();
        if message == "STOPPING=1" {
            break;
        }
    }
    let (code, _, log) = service.end();
    assert_eq!(code, 0, "{log}");
}

#[test]
fn signal_while_loading_is_no_error() {
    let model = model("tinyllama-synth");
    let manager = Manager::abstract_("signal");
    let arguments = ["-m", model.to_str().expect("UTF-8"), "-p", "Hi"];
    let mut service = Service::start("signal", &manager, &arguments);
    service.close_input();
    manager.hear_until("STATUS=loading 0 %");
    service.signal(Signal::TERM);
    let heard = manager.hear_until("STOPPING=1");
    assert!(!heard.concat().contains("READY=1"), "{heard:?}");
    let (code, _, log) = service.end();
    assert_eq!(code, 143, "{log}");
}

#[test]
fn watchdog_of_another_process_gets_no_pings() {
    let model = random_model("other");
    let manager = Manager::abstract_("other");
    let arguments = ["-m", &model, "--raw", "-n", "5", "--console", "-"];
    let variables = [("NOTIFY_SOCKET", &manager.name[..]), ("WATCHDOG_PID", "1")];
    let mut service = Service::start_with("other", &arguments, &variables);
    let heard = manager.hear_until("READY=1\nSTATUS=ready");
    assert_eq!(heard, told(&heard));
    service.send(b"Hi\n");
    assert_eq!(manager.hear_until("STATUS=ready").len(), 2);
    assert_eq!(manager.hear_for(2 * WATCHDOG), None);
    let (code, _, log) = service.end();
    assert_eq!(code, 0, "{log}");
    assert_eq!(manager.hear_until("STOPPING=1").len(), 1);
}

#[test]
fn error_is_told_in_one_line() {
    let manager = Manager::abstract_("error");
    let arguments = ["-m", "/no/such\nREADY=1\nmodel", "-p", "Hi"];
    let service = Service::start("error", &manager, &arguments);
    let (code, _, log) = service.end();
    assert_eq!(code, 4, "{log}");
    assert_eq!(manager.hear(), "STATUS=starting");
    let last = manager.hear();
    let (stopping, status) = last.split_once('\n').expect("two lines");
    assert_eq!(stopping, "STOPPING=1");
    assert!(status.starts_with("STATUS=error: "), "{status}");
    assert!(status.contains("No such file"), "{status}");
    assert!(!status.contains('\n'), "{status}");
}

#[test]
fn wrong_variables_are_one_warning() {
    let model = random_model("wrong");
    let arguments = ["-m", &model, "--raw", "-n", "5", "-p", "Hi"];
    let run = |variables: &[(&str, &str)]| {
        let (code, text, log) = Service::start_with("wrong", &arguments, variables).end();
        assert_eq!(code, 0, "{variables:?}: {log}");
        (text, log.matches("rushlight warning ").count(), log)
    };
    let (expected, warnings, log) = run(&[]);
    assert_eq!(warnings, 0, "{log}");
    let long = format!("/{}", "x".repeat(107));
    let longer = format!("@{}", "x".repeat(5000));
    for name in [
        "relative",
        "/",
        "@",
        "vsock:2:1234",
        &long,
        &longer,
        "/no/such",
    ] {
        let (text, warnings, log) = run(&[("NOTIFY_SOCKET", name)]);
        assert_eq!((&text, warnings), (&expected, 1), "{name}: {log}");
        assert!(log.contains("NOTIFY_SOCKET: "), "{log}");
    }
    let (text, warnings, log) = run(&[("NOTIFY_SOCKET", "")]);
    assert_eq!((text, warnings), (expected, 0), "{log}");
    for usec in ["soon", "0", "-1"] {
        let manager = Manager::abstract_("wrong");
        let name = &manager.name;
        let (_, warnings, log) = run(&[("NOTIFY_SOCKET", name), ("WATCHDOG_USEC", usec)]);
        assert_eq!(warnings, 1, "{log}");
        let heard = manager.hear_until("STOPPING=1");
        assert_eq!(heard, told(&heard));
    }
}

#[test]
fn manager_that_does_not_read_holds_nothing_up() {
    let model = random_model("deaf");
    let manager = Manager::at_path("deaf");
    // No room from the start.
    let other = UnixDatagram::unbound().expect("a socket");
    other.set_nonblocking(true).expect("a socket");
    while other.send_to(b"FULL", &manager.name).is_ok() {}
    let arguments = ["-m", &model, "--raw", "-n", "5", "--console", "-"];
    let mut service = Service::start("deaf", &manager, &arguments);
    service.send(&b"Hi\n".repeat(30));
    let began = Instant::now();
    let answered = |log: &PathBuf| {
        let log = fs::read_to_string(log).expect("the log");
        log.matches("rushlight end ").count()
    };
    while answered(&service.log) < 30 {
        assert!(began.elapsed() < PATIENCE, "it waits for the manager");
        std::thread::sleep(Duration::from_millis(20));
    }
    // What matters is said once there is room.
    manager.hear_until("READY=1");
    let (code, _, log) = service.end();
    assert_eq!(code, 0, "{log}");
    assert_eq!(log.matches("rushlight warning ").count(), 0, "{log}");
    manager.hear_until("STOPPING=1");
}
