//! What systemd is told (sd_notify(3)).

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket to systemd, if it started us.
#[derive(Debug)]
pub struct Notify(Option<(UnixDatagram, SocketAddr)>);

impl Notify {
    /// The socket that the environment names.
    pub fn from_environment() -> Self {
        Self(std::env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path)))
    }

    /// Tells it; nobody listens, nothing happens.
    pub fn tell(&self, state: &str) {
        if let Some((socket, to)) = &self.0 {
            // The manager may be restarting; what matters is told again.
            let _ = socket.send_to_addr(state.as_bytes(), to);
        }
    }
}

fn connect(path: &OsString) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(path),
    };
    Some((UnixDatagram::unbound().ok()?, address.ok()?))
}

/// How often systemd wants to hear of us, if it does.
pub fn watchdog() -> Option<Duration> {
    let variable = |name: &str| std::env::var(name).ok();
    let ours = variable("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let us = variable("WATCHDOG_USEC")?.parse().ok()?;
    (ours && us > 0).then(|| Duration::from_micros(us))
}
