//! An ssh server on this machine, for the check: dropbear, as boards have it, with BusyBox for a
//! far end, from Debian's packages. Nothing outside the cache and the target folder changes, and
//! nobody needs to be root.
//!
//! dropbear believes a password file of our own, by nss_wrapper, so that the keys of the login are
//! ours; it serves one connection a process, as under inetd, and whatever it is asked it hands to
//! BusyBox, whose shell takes its own applets before any program.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};

use super::far::quoted;
use crate::archive::{self, Archive};
use crate::fetch::Fetch;
use crate::{command, workspace};

const SUITE: &str = "bookworm";
/// The server; what makes it believe in a user; the far end.
const PACKAGES: [&str; 3] = ["dropbear-bin", "libnss-wrapper", "busybox-static"];
/// The user's name.
const USER: &str = "board";
/// What a small board has; all else that BusyBox could do is taken away.
const APPLETS: [&str; 12] = [
    "cat",
    "chmod",
    "df",
    "head",
    "ls",
    "mkdir",
    "mv",
    "rm",
    "sh",
    "sha256sum",
    "sync",
    "uname",
];

/// Where what was fetched lies.
fn fetched() -> PathBuf {
    workspace::cache().join("sshd")
}

/// Fetches what is missing.
pub fn ensure() -> Result<()> {
    if fetched().exists() {
        return Ok(());
    }
    let fetch = Fetch::begin()?;
    eprintln!("fetch: {} of {SUITE}, 5 MB", PACKAGES.join(", "));
    let archive = Archive::open(&fetch, &[SUITE], None)?;
    for package in PACKAGES {
        archive.download_all(package, SUITE)?;
    }
    archive.unpack(None)?;
    archive.place("", &fetched())
}

/// A running server.
pub struct Server {
    folder: PathBuf,
    port: u16,
    /// Bytes of a connection that it takes before it is cut; 0 for all.
    cut_after: Arc<AtomicU64>,
}

impl Server {
    /// Starts one with fresh keys; all that it has is in `folder`. It ends with this process.
    pub fn start(folder: &Path) -> Result<Server> {
        ensure()?;
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        for name in ["home/.ssh", "bin"] {
            let folder = folder.join(name);
            fs::create_dir_all(&folder)?;
            // An ssh server believes no keys where others may write.
            fs::set_permissions(folder, Permissions::from_mode(0o700))?;
        }
        fs::set_permissions(folder.join("home"), Permissions::from_mode(0o700))?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let server = Server {
            folder: folder.to_owned(),
            port: listener.local_addr()?.port(),
            cut_after: Arc::default(),
        };
        server.make_keys()?;
        server.make_user()?;
        server.set_rules(&[], "")?;
        let cut_after = server.cut_after.clone();
        let dropbear = server.dropbear();
        thread::spawn(move || {
            for client in listener.incoming() {
                let served = client
                    .and_then(|client| serve(&dropbear, client, cut_after.load(Ordering::Relaxed)));
                if let Err(error) = served {
                    eprintln!("ssh server: {error}");
                }
            }
        });
        Ok(server)
    }

    /// The home of the user.
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// A folder of programs there.
    pub fn programs(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// As ssh takes it.
    pub fn address() -> String {
        format!("{USER}@{}", Ipv4Addr::LOCALHOST)
    }

    /// Flags of ssh by which it gets in, and nothing of this machine's settings matters.
    pub fn flags(&self) -> Vec<String> {
        let file = |name| self.folder.join(name).display().to_string();
        let port = self.port.to_string();
        let known = format!("UserKnownHostsFile={}", file("known_hosts"));
        let mut flags = ["-F", "none", "-i", &file("id"), "-p", &port, "-o", &known]
            .map(str::to_owned)
            .to_vec();
        for option in [
            "StrictHostKeyChecking=accept-new",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
            "LogLevel=ERROR",
        ] {
            flags.extend(["-o".to_owned(), option.to_owned()]);
        }
        flags
    }

    /// Cuts connections from now on after so many bytes from the client; 0 for never.
    pub fn cut_after(&self, bytes: u64) {
        self.cut_after.store(bytes, Ordering::Relaxed);
    }

    /// What the shell there knows: [`APPLETS`] but the `missing`, and before that `script`.
    pub fn set_rules(&self, missing: &[&str], script: &str) -> Result<()> {
        let list = command::read(Command::new(busybox()).arg("--list"))?;
        let list = String::from_utf8(list)?;
        let mut rules = String::new();
        for applet in list.lines() {
            let is_name = applet.bytes().all(|byte| byte.is_ascii_alphanumeric());
            let is_there = APPLETS.contains(&applet) && !missing.contains(&applet);
            if is_name && !is_there && !BUILT_IN.contains(&applet) {
                rules +=
                    &format!("{applet}() {{ echo 'sh: {applet}: not found' >&2; return 127; }}\n");
            }
        }
        fs::write(self.folder.join("rules"), rules + script)?;
        Ok(())
    }

    fn make_keys(&self) -> Result<()> {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
        command::run_quietly(keygen.arg(self.folder.join("id")))?;
        let keys = self.home().join(".ssh/authorized_keys");
        fs::copy(self.folder.join("id.pub"), &keys)?;
        fs::set_permissions(keys, Permissions::from_mode(0o600))?;
        let words = archive::words(&fetched(), "usr/bin/dropbearkey", &[]);
        let mut host_key = Command::new(&words[0]);
        host_key.args(&words[1..]).args(["-t", "ed25519", "-f"]);
        command::read_log(host_key.arg(self.folder.join("host_key")))?;
        Ok(())
    }

    /// A user with the numbers of whoever runs this.
    fn make_user(&self) -> Result<()> {
        let me = fs::metadata("/proc/self")?;
        let (user, group) = (me.uid(), me.gid());
        let home = self.home();
        let user = format!("{USER}:x:{user}:{group}::{}:/bin/sh\n", home.display());
        fs::write(self.folder.join("passwd"), user)?;
        fs::write(self.folder.join("group"), format!("{USER}:x:{group}:\n"))?;
        Ok(())
    }

    /// How the server of one connection is called, but for its stdin and stdout.
    fn dropbear(&self) -> Vec<String> {
        let word = |path: &Path| quoted(&path.display().to_string());
        let far = format!(
            "cd {} && exec env -i PATH={} SSH_ORIGINAL_COMMAND=\"$SSH_ORIGINAL_COMMAND\" {} sh -c \
             '. ../rules; eval \"$SSH_ORIGINAL_COMMAND\"'",
            word(&self.home()),
            word(&self.programs()),
            word(&busybox())
        );
        let wrapper = archive::libraries(&fetched()).map(|folder| folder.join("libnss_wrapper.so"));
        let wrapper = wrapper.into_iter().find(|wrapper| wrapper.exists());
        let preload = wrapper.unwrap_or_default().display().to_string();
        let called = archive::words(&fetched(), "usr/sbin/dropbear", &["--preload", &preload]);
        let file = |name| self.folder.join(name).display().to_string();
        let mut words = vec![
            "env".to_owned(),
            format!("NSS_WRAPPER_PASSWD={}", file("passwd")),
            format!("NSS_WRAPPER_GROUP={}", file("group")),
        ];
        words.extend(called.iter().map(|word| word.display().to_string()));
        words.extend(["-i", "-m", "-s", "-r", &file("host_key"), "-c", &far].map(str::to_owned));
        words
    }
}

/// Applets that are part of the shell, or as good as.
const BUILT_IN: [&str; 8] = [
    "ash", "busybox", "echo", "false", "printf", "pwd", "test", "true",
];

fn busybox() -> PathBuf {
    fetched().join("bin/busybox")
}

/// Serves a connection, and waits for nothing.
fn serve(dropbear: &[String], client: TcpStream, cut_after: u64) -> io::Result<()> {
    let mut command = Command::new(&dropbear[0]);
    command.args(&dropbear[1..]).stderr(Stdio::inherit());
    let socket = match cut_after {
        0 => client,
        bytes => behind_a_cut(client, bytes)?,
    };
    command.stdin(OwnedFd::from(socket.try_clone()?));
    command.stdout(OwnedFd::from(socket));
    let mut child = command.spawn()?;
    thread::spawn(move || child.wait());
    Ok(())
}

/// A connection to `client` that breaks after so many bytes from there.
fn behind_a_cut(client: TcpStream, bytes: u64) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    let (mut from_client, mut to_far) = (client.try_clone()?, near.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut (&mut from_client).take(bytes), &mut to_far);
        let _ = from_client.shutdown(Shutdown::Both);
        let _ = to_far.shutdown(Shutdown::Both);
    });
    let (mut from_far, mut to_client) = (near, client);
    thread::spawn(move || {
        let _ = io::copy(&mut from_far, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(far)
}

/// Writes a program for the far end.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("cannot create {path:?}"))?;
    file.write_all(text.as_bytes())?;
    fs::set_permissions(path, Permissions::from_mode(0o755))?;
    Ok(())
}
