//! Metrics in Prometheus' text format, on a port of this machine only.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use wakepath_ebpf::Overhead;

use crate::watch::Cost;

/// No request is longer.
const MAX_REQUEST: usize = 8192;
/// How long a client may take in all, from its connection to the last byte of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Clients at a time. One more ends the oldest: a client that asks at once is answered in less than a millisecond.
const MAX_CLIENTS: usize = 8;

/// What is counted.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// What the configuration asks for, `psd`, `boost` and `drives`, and whether all of it is in force.
    pub policies: Vec<(&'static str, bool)>,
    /// I/Os seen, by CPU.
    pub ios: Vec<u64>,
    /// CPUs that have a lease now.
    pub leases: usize,
    /// Leases given since the start.
    pub leases_given: u64,
    /// Latency limits written.
    pub lease_writes: u64,
    /// Frequency policies that are raised now.
    pub boosted: usize,
    /// Minimum frequencies written.
    pub boost_writes: u64,
    /// Tables set again because something had changed them.
    pub tables_set_again: u64,
    /// Settings that could not be written.
    pub failures: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Runs of eBPF programs that were timed.
    pub timed: Option<Cost>,
    /// Whether the kernel module gives the leases.
    pub kernel_module: bool,
}

impl Metrics {
    /// In the text format.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, String)]| {
            let _ = writeln!(
                text,
                "# HELP wakepath_{name} {help}\n# TYPE wakepath_{name} {kind}"
            );
            for (labels, value) in values {
                let _ = writeln!(text, "wakepath_{name}{labels} {value}");
            }
        };
        let one = |value: u64| vec![(String::new(), value.to_string())];
        metric(
            "build_info",
            "gauge",
            "The version that runs.",
            &[(
                format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")),
                "1".to_owned(),
            )],
        );
        let policies = self.policies.iter();
        let policies: Vec<_> = policies
            .map(|(policy, on)| {
                (
                    format!("{{policy=\"{policy}\"}}"),
                    u8::from(*on).to_string(),
                )
            })
            .collect();
        metric(
            "policy_in_force",
            "gauge",
            "1 if all that the configuration asks of this policy is in force, 0 if it or a part of it is off.",
            &policies,
        );
        let ios = self.ios.iter().enumerate();
        let ios: Vec<_> = ios
            .map(|(cpu, count)| (format!("{{cpu=\"{cpu}\"}}"), count.to_string()))
            .collect();
        metric(
            "ios_total",
            "counter",
            "Block I/Os that were watched.",
            &ios,
        );
        metric(
            "leases",
            "gauge",
            "CPUs that have a latency lease now.",
            &one(self.leases as u64),
        );
        metric(
            "leases_total",
            "counter",
            "Leases given.",
            &one(self.leases_given),
        );
        metric(
            "lease_writes_total",
            "counter",
            "Latency limits written: two per lease.",
            &one(self.lease_writes),
        );
        metric(
            "boosted_policies",
            "gauge",
            "Frequency policies whose minimum is raised now.",
            &one(self.boosted as u64),
        );
        metric(
            "boost_writes_total",
            "counter",
            "Minimum frequencies written.",
            &one(self.boost_writes),
        );
        metric(
            "drive_tables_set_again_total",
            "counter",
            "APST tables set again because something had changed them.",
            &one(self.tables_set_again),
        );
        metric(
            "failures_total",
            "counter",
            "Settings that could not be written.",
            &one(self.failures),
        );
        metric(
            "lost_events_total",
            "counter",
            "Events that found no room.",
            &one(self.lost),
        );
        metric(
            "kernel_module",
            "gauge",
            "1 if the kernel module wakepath_psd gives the leases.",
            &one(u64::from(self.kernel_module)),
        );
        if let Some(cost) = self.timed {
            let [of_programs, of_nothing] = [cost.programs, cost.nothing];
            metric(
                "ebpf_timed_runs_total",
                "counter",
                "Runs of eBPF programs that were timed.",
                &one(of_programs.runs),
            );
            metric(
                "ebpf_timed_nanoseconds_total",
                "counter",
                "Time in these runs; divided by their number, what watching costs per I/O.",
                &one(nanoseconds(of_programs)),
            );
            metric(
                "ebpf_empty_runs_total",
                "counter",
                "Runs of a program that does nothing, timed beside them.",
                &one(of_nothing.runs),
            );
            metric(
                "ebpf_empty_nanoseconds_total",
                "counter",
                "Time in these runs; divided by their number, what of it is the timing itself.",
                &one(nanoseconds(of_nothing)),
            );
        }
        text
    }
}

fn nanoseconds(overhead: Overhead) -> u64 {
    u64::try_from(overhead.run_time.as_nanos()).unwrap_or(u64::MAX)
}

/// The port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    clients: Clients,
}

/// Clients that are being answered, the oldest first.
type Clients = Arc<Mutex<VecDeque<Arc<TcpStream>>>>;

impl Server {
    /// Listens on a port of 127.0.0.1.
    ///
    /// # Errors
    /// Somebody else does.
    pub fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            clients: Arc::default(),
        })
    }

    /// The port that it listens on.
    pub fn port(&self) -> Option<u16> {
        Some(self.listener.local_addr().ok()?.port())
    }

    /// Becomes readable when a client asks.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers those who ask, each in a thread of its own: a slow client must not hold up leases.
    pub fn answer(&self, metrics: impl FnOnce() -> Metrics) {
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
        let (text, clients) = (metrics().render(), Arc::clone(&self.clients));
        std::thread::spawn(move || {
            // A client that has gone needs no answer.
            let _ = serve(&client, &text, Instant::now() + PATIENCE);
            let mut clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
            clients.retain(|other| !Arc::ptr_eq(other, &client));
        });
    }
}

/// Answers a client that may take until `deadline`.
fn serve(mut client: &TcpStream, text: &str, deadline: Instant) -> io::Result<()> {
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        // A time-out of 0 would be none.
        (!left.is_zero()).then_some(left).ok_or(ErrorKind::TimedOut)
    };
    client.set_nonblocking(false)?;
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while request.len() < MAX_REQUEST && !request.windows(4).any(|w| w == b"\r\n\r\n") {
        client.set_read_timeout(Some(left()?))?;
        match client.read(&mut piece)? {
            0 => break,
            read => request.extend_from_slice(&piece[..read]),
        }
    }
    let answer = response(&request, text);
    let mut unsent = &answer[..];
    while !unsent.is_empty() {
        client.set_write_timeout(Some(left()?))?;
        match client.write(unsent)? {
            0 => return Err(ErrorKind::WriteZero.into()),
            sent => unsent = &unsent[sent..],
        }
    }
    Ok(())
}

fn response(request: &[u8], text: &str) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let line = request.split('\r').next().unwrap_or_default();
    let mut words = line.split(' ');
    let (status, body) = match (words.next(), words.next()) {
        _ if !hosts(&request).all(is_this_machine) => (
            "421 Misdirected Request",
            "metrics are for clients of this machine: http://127.0.0.1 or http://localhost\n",
        ),
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => ("200 OK", text),
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "only /metrics is here\n"),
        _ => ("405 Method Not Allowed", "metrics can only be read\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let body = if line.starts_with("HEAD ") { "" } else { body };
    (head + body).into_bytes()
}

/// The names by which a request calls this server.
fn hosts(request: &str) -> impl Iterator<Item = &str> {
    let headers = request.lines().skip(1).take_while(|line| !line.is_empty());
    headers.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim()
            .eq_ignore_ascii_case("host")
            .then_some(value.trim())
    })
}

/// Whether a `Host` is this machine. A page of another name that a browser was led to resolve to 127.0.0.1 must not read
/// the metrics.
fn is_this_machine(host: &str) -> bool {
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
            let answer = String::from_utf8(response(request.as_bytes(), "x 1\n")).unwrap();
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
            let answer = String::from_utf8(response(request.as_bytes(), "x 1\n")).unwrap();
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
        let server = Server::listen(0).unwrap();
        let address = server.listener.local_addr().unwrap();
        let slow: Vec<TcpStream> = (0..3 * MAX_CLIENTS)
            .map(|_| {
                let client = TcpStream::connect(address).unwrap();
                (&client).write_all(b"GET").unwrap();
                server.answer(Metrics::default);
                client
            })
            .collect();
        let mut client = TcpStream::connect(address).unwrap();
        server.answer(Metrics::default);
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
        serve(&client, "x 1\n", began + Duration::from_millis(300)).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10));
        drop(client);
        drips.join().unwrap();
    }

    #[test]
    fn metrics_are_in_the_text_format() {
        let metrics = Metrics {
            policies: vec![("psd", false), ("boost", true)],
            ios: vec![3, 4],
            leases_given: 2,
            timed: Some(Cost {
                programs: Overhead {
                    runs: 10,
                    run_time: Duration::from_nanos(500),
                    missed_runs: 0,
                },
                nothing: Overhead::default(),
            }),
            ..Metrics::default()
        };
        let text = metrics.render();
        for line in text.lines() {
            let known = line.starts_with("# HELP wakepath_")
                || line.starts_with("# TYPE wakepath_")
                || (line.starts_with("wakepath_")
                    && line.rsplit(' ').next().unwrap().parse::<u64>().is_ok());
            assert!(known, "{line}");
        }
        assert!(text.contains("wakepath_policy_in_force{policy=\"psd\"} 0\n"));
        assert!(text.contains("wakepath_policy_in_force{policy=\"boost\"} 1\n"));
        assert!(text.contains("wakepath_ios_total{cpu=\"1\"} 4\n"));
        assert!(text.contains("wakepath_ebpf_timed_nanoseconds_total 500\n"));
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            response(&bytes, "x");
        }
    }
}
