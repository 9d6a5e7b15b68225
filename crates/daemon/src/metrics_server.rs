//! Serves metrics to clients on this machine, over HTTP.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Size limit for a client's request, in bytes.
const MAX_REQUEST: usize = 8192;
/// Time limit for a client, from connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of clients served at a time. One more ends the oldest: a client that asks at once is answered in less than a
/// millisecond.
const MAX_CLIENTS: usize = 8;

/// Listens on a port for clients that ask for metrics.
#[derive(Debug)]
pub struct MetricsServer {
    listener: TcpListener,
    clients: Clients,
}

/// Clients that are being answered, the oldest first.
type Clients = Arc<Mutex<VecDeque<Arc<TcpStream>>>>;

impl MetricsServer {
    /// Listens for clients on a port of 127.0.0.1.
    ///
    /// # Errors
    /// Another process listens there.
    pub fn listen_on_loopback(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            clients: Arc::default(),
        })
    }

    /// Number of the port that is listened on.
    pub fn port(&self) -> Option<u16> {
        Some(self.listener.local_addr().ok()?.port())
    }

    /// Descriptor that becomes readable when a client asks.
    pub fn listener_descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers a waiting client with a page made by `render`, in a separate thread: slow clients must not hold up
    /// leases.
    pub fn accept_and_answer_client_in_thread(&self, render: impl FnOnce() -> String) {
        let Ok((client, _)) = self.listener.accept() else {
            return;
        };
        let client = Arc::new(client);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() == MAX_CLIENTS
            && let Some(oldest) = clients.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both);
        }
        clients.push_back(Arc::clone(&client));
        drop(clients);
        let (text, clients) = (render(), Arc::clone(&self.clients));
        std::thread::spawn(move || {
            // A client that has closed its connection needs no answer.
            let _ = answer_client_until_deadline(&client, &text, Instant::now() + PATIENCE);
            let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|other| !Arc::ptr_eq(other, &client));
        });
    }
}

/// Answers a client, which may take until `deadline`.
fn answer_client_until_deadline(
    mut client: &TcpStream,
    page: &str,
    deadline: Instant,
) -> io::Result<()> {
    client.set_nonblocking(false)?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < MAX_REQUEST && !request.windows(4).any(|w| w == b"\r\n\r\n") {
        client.set_read_timeout(Some(time_left_or_timeout(deadline)?))?;
        match client.read(&mut piece)? {
            0 => break,
            read => request.extend_from_slice(&piece[..read]),
        }
    }
    let answer = build_http_response(&request, page);
    let mut unsent = &answer[..];
    while !unsent.is_empty() {
        client.set_write_timeout(Some(time_left_or_timeout(deadline)?))?;
        match client.write(unsent)? {
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
        "HTTP/1.1 {status}\r\nContent-Type: page/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
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
        let address = server.listener.local_addr().unwrap();
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
    fn a_client_has_a_deadline_in_all() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let dripping = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (client, _) = listener.accept().unwrap();
        let drips = std::thread::spawn(move || {
            let drip = || (&dripping).write_all(b"G").is_ok();
            while drip() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        answer_client_until_deadline(&client, "x 1\n", began + Duration::from_millis(300))
            .unwrap_err();
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
