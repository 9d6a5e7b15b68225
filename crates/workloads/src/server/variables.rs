//! Figures of a server that a caller sets, in place of the file's.

use std::collections::BTreeMap;

use wakepath_units::spelling::suggestion_with_known_names;

use super::checks::{MAX_CLIENTS, MAX_WORKERS, RATES};
use super::error::ServerError;
use super::figure::ServerFigure;
use super::model::{Arrivals, ServerFile};
use crate::text::escape_and_shorten;

/// Names of the figures that a caller may set.
const NAMES: [&str; 3] = ["rate", "clients", "workers"];

impl ServerFile {
    /// The server with figures by name in place of its own: `rate` in requests per second, `clients`, `workers`. `origin` is the
    /// file's name for messages.
    ///
    /// # Errors
    /// An unknown name, a rate for clients or clients for a rate, a value out of the range that the file may have.
    pub fn with_variables(
        mut self,
        variables: &BTreeMap<String, String>,
        origin: &str,
    ) -> Result<Self, ServerError> {
        for (name, text) in variables {
            self.set_variable(name, text)
                .map_err(|message| ServerError::for_file(origin, message))?;
        }
        Ok(self)
    }

    fn set_variable(&mut self, name: &str, text: &str) -> Result<(), String> {
        match (name, &mut self.arrivals) {
            ("rate", Arrivals::Open { rate, .. }) => {
                *rate = ServerFigure::declared(parse_rate(text)?);
            }
            (
                "clients",
                Arrivals::Clients {
                    clients,
                    in_process: true,
                    ..
                },
            ) => {
                *clients = parse_count(name, text, MAX_WORKERS)?;
                self.workers = *clients;
            }
            ("clients", Arrivals::Clients { clients, .. }) => {
                *clients = parse_count(name, text, MAX_CLIENTS)?;
            }
            (
                "workers",
                Arrivals::Clients {
                    in_process: true, ..
                },
            ) => {
                return Err(
                    "workers is set, and each client is a worker here; set clients=N".to_owned(),
                );
            }
            ("workers", _) => self.workers = parse_count(name, text, MAX_WORKERS)?,
            ("rate", Arrivals::Clients { .. }) => {
                return Err("rate is set, and clients that wait for replies decide the rate here; set clients=N".to_owned());
            }
            ("clients", _) => {
                return Err(
                    "clients is set, and requests arrive whatever is in flight here; set rate=N"
                        .to_owned(),
                );
            }
            ("rate", _) => {
                return Err("rate is set, and a file has the times of the requests here".to_owned());
            }
            (other, _) => {
                let known = suggestion_with_known_names(other, &NAMES);
                let shown = escape_and_shorten(other);
                return Err(format!("a server has no variable `{shown}`{known}"));
            }
        }
        Ok(())
    }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let (low, high) = RATES;
    let rate = text.trim().parse::<f64>().ok();
    rate.filter(|rate| (low..=high).contains(rate))
        .ok_or_else(|| describe_wrong_value("rate", text, low, high))
}

fn parse_count(name: &str, text: &str, most: u32) -> Result<u32, String> {
    let count = text.trim().parse::<u32>().ok();
    count
        .filter(|count| (1..=most).contains(count))
        .ok_or_else(|| describe_wrong_value(name, text, 1.0, f64::from(most)))
}

fn describe_wrong_value(name: &str, text: &str, low: f64, high: f64) -> String {
    let shown = escape_and_shorten(text);
    format!("{name}={shown} is set, and it may be {low} to {high}")
}
