//! Serves metrics to clients on this machine, over HTTP.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Size limit for a client's request, in bytes.
const MAX_REQUEST: usize = 8192;
/// Time limit for a client, from connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of clients served at a time. One more ends the oldest: a client that asks at once is answered in less than a
/// millisecond.
const MAX_CLIENTS: usize = 8;

/// Listens for clients that ask for metrics.
#[derive(Debug)]
pub struct MetricsServer {
    listener: Listener,
    clients: Clients,
}

/// Where clients come from.
#[derive(Debug)]
enum Listener {
    Loopback(TcpListener),
    Socket(UnixListener, SocketFile),
}

/// The file of a Unix socket, which is removed at the end.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: another process may have put another socket there.
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let now = self.path.symlink_metadata();
        if now.is_ok_and(|now| (now.dev(), now.ino()) == self.identity) {
            // Nobody is left to be told of a failure.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A client on either kind of connection.
#[derive(Debug)]
enum Client {
    Loopback(TcpStream),
    Socket(UnixStream),
}

impl Client {
    fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Loopback(stream) => stream.set_nonblocking(is_nonblocking),
            Self::Socket(stream) => stream.set_nonblocking(is_nonblocking),
        }
    }

    /// Shuts the connection down, and lets a thread that waits for it go on.
    fn shut_down(&self) {
        // A client that has gone needs no goodbye.
        let _ = match self {
            Self::Loopback(stream) => stream.shutdown(Shutdown::Both),
            Self::Socket(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn read_within(&self, longest: Duration, piece: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Loopback(stream) => {
                stream.set_read_timeout(Some(longest))?;
                (&*stream).read(piece)
            }
            Self::Socket(stream) => {
                stream.set_read_timeout(Some(longest))?;
                (&*stream).read(piece)
            }
        }
    }

    fn write_within(&self, longest: Duration, unsent: &[u8]) -> io::Result<usize> {
        match self {
            Self::Loopback(stream) => {
                stream.set_write_timeout(Some(longest))?;
                (&*stream).write(unsent)
            }
            Self::Socket(stream) => {
                stream.set_write_timeout(Some(longest))?;
                (&*stream).write(unsent)
            }
        }
    }
}

/// Clients that are being answered, the oldest first.
type Clients = Arc<Mutex<VecDeque<Arc<Client>>>>;

impl MetricsServer {
    /// Listens for clients on a port of 127.0.0.1.
    ///
    /// # Errors
    /// Another process listens there.
    pub fn listen_on_loopback(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Listener::Loopback(listener),
            clients: Arc::default(),
        })
    }

    /// Listens for clients on a Unix socket that root and its group may use. A socket that a killed process has left is
    /// replaced.
    ///
    /// # Errors
    /// Another process listens there, something else than a socket is there, or the folder cannot be written to.
    pub fn listen_on_socket(path: &Path) -> io::Result<Self> {
        remove_abandoned_socket(path)?;
        let listener = UnixListener::bind(path)?;
        let file = path.symlink_metadata()?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: (file.dev(), file.ino()),
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Listener::Socket(listener, file),
            clients: Arc::default(),
        })
    }

    /// Number of the port that is listened on; `None` for a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match &self.listener {
            Listener::Loopback(listener) => Some(listener.local_addr().ok()?.port()),
            Listener::Socket(..) => None,
        }
    }

    /// Path of the Unix socket that is listened on; `None` for a port.
    pub fn socket_path(&self) -> Option<&Path> {
        match &self.listener {
            Listener::Loopback(_) => None,
            Listener::Socket(_, file) => Some(&file.path),
        }
    }

    /// Descriptor that becomes readable when a client asks.
    pub fn listener_descriptor(&self) -> BorrowedFd<'_> {
        match &self.listener {
            Listener::Loopback(listener) => listener.as_fd(),
            Listener::Socket(listener, _) => listener.as_fd(),
        }
    }

    fn accept_client(&self) -> io::Result<Client> {
        Ok(match &self.listener {
            Listener::Loopback(listener) => Client::Loopback(listener.accept()?.0),
            Listener::Socket(listener, _) => Client::Socket(listener.accept()?.0),
        })
    }

    /// Answers a waiting client with a page made by `render`, both in a separate thread: slow clients and counters must not hold
    /// up leases.
    pub fn accept_and_answer_client_in_thread(
        &self,
        render: impl FnOnce() -> String + Send + 'static,
    ) {
        let Ok(client) = self.accept_client() else {
            return;
        };
        let client = Arc::new(client);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() == MAX_CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            oldest.shut_down();
        }
        clients.push_back(Arc::clone(&client));
        drop(clients);
        let clients = Arc::clone(&self.clients);
        std::thread::spawn(move || {
            // A client that has closed its connection needs no answer.
            let _ = answer_client_until_deadline(&client, render, Instant::now() + PATIENCE);
            let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|other| !Arc::ptr_eq(other, &client));
        });
    }
}

/// Removes a socket at which nobody listens.
fn remove_abandoned_socket(path: &Path) -> io::Result<()> {
    let Ok(present) = path.symlink_metadata() else {
        return Ok(());
    };
    if !present.file_type().is_socket() {
        let other = "something else than a socket is there";
        return Err(io::Error::new(ErrorKind::AlreadyExists, other));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(ErrorKind::AddrInUse.into()),
    }
}

/// Answers a client, which may take until `deadline`.
fn answer_client_until_deadline(
    client: &Client,
    render: impl FnOnce() -> String,
    deadline: Instant,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < MAX_REQUEST && !request.windows(4).any(|w| w == b"\r\n\r\n") {
        match client.read_within(time_left_or_timeout(deadline)?, &mut piece)? {
            0 => break,
            read => request.extend_from_slice(&piece[..read]),
        }
    }
    let answer = build_http_response(&request, &render());
    let mut unsent = &answer[..];
    while !unsent.is_empty() {
        match client.write_within(time_left_or_timeout(deadline)?, unsent)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => unsent = &unsent[sent..],
        }
    }
    Ok(())
}

/// The time left until a deadline.
///
/// # Errors
/// The deadline has passed: for sockets, a time-out of 0 would be none.
fn time_left_or_timeout(deadline: Instant) -> Result<Duration, ErrorKind> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut);
    }
    Ok(left)
}

/// The HTTP response to a request. `page`: the page of metrics.
fn build_http_response(request: &[u8], page: &str) -> Vec<u8> {
    let request_text = String::from_utf8_lossy(request);
    let line = request_text.split('\r').next().unwrap_or_default();
    let mut words = line.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        _ if !host_headers(&request_text).all(is_loopback_host) => (
            "421 Misdirected Request",
            "metrics are for clients of this machine: http://127.0.0.1 or http://localhost\n",
        ),
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => ("200 OK", page),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "only /metrics is here\n"),
        _ => ("405 Method Not Allowed", "metrics can only be read\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let is_head = line.starts_with("HEAD ");
    (head + if is_head { "" } else { body }).into_bytes()
}

/// The values of a request's `Host` headers.
fn host_headers(request: &str) -> impl Iterator<Item = &str> {
    let headers = request.lines().skip(1).take_while(|line| !line.is_empty());
    headers.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim()
            .eq_ignore_ascii_case("host")
            .then_some(value.trim())
    })
}

/// Whether a request's `Host` is this machine. A web page whose name was made to resolve to 127.0.0.1 must not read the
/// metrics.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || name
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_reading_is_answered() {
        let status = |request: &str| {
            let answer =
                String::from_utf8(build_http_response(request.as_bytes(), "x 1\n")).unwrap();
            answer.split("\r\n").next().unwrap().to_owned()
        };
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "HTTP/1.1 200 OK");
        assert_eq!(
            status("GET /etc/passwd HTTP/1.1\r\n\r\n"),
            "HTTP/1.1 404 Not Found"
        );
        for method in ["POST", "PUT", "DELETE"] {
            let line = format!("{method} /metrics HTTP/1.1\r\n\r\n");
            assert_eq!(status(&line), "HTTP/1.1 405 Method Not Allowed");
        }
    }

    #[test]
    fn only_this_machine_is_answered() {
        let status = |host: &str| {
            let request = format!("GET /metrics HTTP/1.1\r\nAccept: */*\r\n{host}\r\n\r\n");
            let answer =
                String::from_utf8(build_http_response(request.as_bytes(), "x 1\n")).unwrap();
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        for host in [
            "Host: localhost",
            "host: LOCALHOST:9100",
            "Host: 127.0.0.1:9100",
            "Host: [::1]:9100",
            "Host:localhost.",
            "X: y",
        ] {
            assert_eq!(status(host), "200", "{host}");
        }
        for host in [
            "Host: evil.example",
            "Host: localhost.evil.example",
            "Host: 127.0.0.1.evil.example:9100",
            "Host: 192.0.2.2",
            "Host: ",
            "Host: localhost\r\nHost: evil.example",
            "Host: [2001:db8::1]",
        ] {
            assert_eq!(status(host), "421", "{host}");
        }
    }

    /// What a client gets that asks at once, while others ask in drips.
    #[test]
    fn slow_clients_blind_nobody() {
        let server = MetricsServer::listen_on_loopback(0).unwrap();
        let address = (Ipv4Addr::LOCALHOST, server.port().unwrap());
        let slow: Vec<TcpStream> = (0..3 * MAX_CLIENTS)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                (&client).write_all(b"GET").unwrap();
                server.accept_and_answer_client_in_thread(String::new);
                client
            })
            .collect();
        let mut client = TcpStream::connect(address).unwrap();
        server.accept_and_answer_client_in_thread(String::new);
        client
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        drop(slow);
    }

    #[test]
    fn a_socket_is_served_and_gone_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        // A killed process has left its socket.
        drop(UnixListener::bind(&path).unwrap());
        let server = MetricsServer::listen_on_socket(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        let mut client = UnixStream::connect(&path).unwrap();
        server.accept_and_answer_client_in_thread(|| "x 1\n".to_owned());
        client
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\nx 1\n"), "{answer}");
        let second = MetricsServer::listen_on_socket(&path).unwrap_err();
        assert_eq!(second.kind(), ErrorKind::AddrInUse);
        drop(server);
        assert!(!path.exists());
        std::fs::write(&path, "mine").unwrap();
        let refused = MetricsServer::listen_on_socket(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }

    #[test]
    fn a_client_has_a_deadline_in_all() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let dripping = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = Client::Loopback(listener.accept().unwrap().0);
        let drips = std::thread::spawn(move || {
            let drip = || (&dripping).write_all(b"G").is_ok();
            while drip() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        let deadline = began + Duration::from_millis(300);
        answer_client_until_deadline(&client, || "x 1\n".to_owned(), deadline).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10));
        drop(client);
        drips.join().unwrap();
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            build_http_response(&bytes, "x");
        }
    }
}
