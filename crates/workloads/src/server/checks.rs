//! Checks of a server file: kinds, ranges, and keys that do not go together.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use wakepath_units::Nanoseconds;
use wakepath_units::spelling::suggestion_with_known_names;

use super::error::{ServerError, TextPlace};
use super::figure::ServerFigure;
use super::log_checks::{check_background_writers, check_log};
use super::model::{
    Arrivals, CallDirection, CpuAmount, CpuWork, DiskCall, MAX_CALL_KINDS, ServerFile, Spacing,
};
use super::ranges::{
    SECTOR, figure_in_range, number_in_range, require_range, seconds_to_time, time_in_range,
};
use super::raw::{Pattern, RawArrivals, RawCall, RawFile, RawRequest, TimeUnit};
use super::times;
use crate::text::escape_and_shorten;

/// Counted seconds, and seconds of warm-up, if the file gives none.
const DEFAULT_SECONDS: f64 = 10.0;
const DEFAULT_WARM_UP: f64 = 1.0;

/// Longest name in bytes.
const MAX_NAME_BYTES: usize = 60;
pub(super) const MAX_WORKERS: u32 = 1024;
pub(super) const MAX_CLIENTS: u32 = 100_000;
/// Lowest and highest rate of arrivals, in requests per second.
pub(super) const RATES: (f64, f64) = (0.001, 1e7);
const MAX_CALLS: u32 = 256;
const MAX_CALL_BYTES: u64 = 64 << 20;
const MAX_CPU: usize = 65_535;

/// Checks a file that was read, and resolves its defaults.
pub(super) fn check_server_file(
    raw: &RawFile,
    place: TextPlace<'_>,
    folder: Option<&Path>,
) -> Result<ServerFile, ServerError> {
    if raw.kind.get_ref() != "server" {
        let wrong = escape_and_shorten(raw.kind.get_ref());
        let known = suggestion_with_known_names(raw.kind.get_ref(), &["server", "tasks"]);
        return Err(place.error_at_value(
            &raw.kind,
            format!("no kind of workload is called `{wrong}`{known}"),
        ));
    }
    let name = raw.name.get_ref();
    if name.trim().is_empty() || name.len() > MAX_NAME_BYTES || name.contains(char::is_control) {
        let message = format!("`name` has 1 to {MAX_NAME_BYTES} bytes, and no line breaks");
        return Err(place.error_at_value(&raw.name, message));
    }
    let (arrivals, interrupt_cpus) = check_arrivals(&raw.arrivals, place, folder)?;
    let warm_up = check_warm_up(raw, &arrivals, place)?;
    let duration = check_duration(raw, &arrivals, warm_up, place)?;
    let (work, reply, calls) = check_request(&raw.request, place)?;
    let workers = check_workers(raw, &arrivals, place)?;
    Ok(ServerFile {
        name: name.clone(),
        workers,
        duration,
        warm_up,
        at_most: None,
        arrivals,
        interrupt_cpus,
        work,
        reply,
        calls,
        log: raw
            .log
            .as_ref()
            .map(|log| check_log(log, place))
            .transpose()?,
        background: check_background_writers(&raw.background, place)?,
    })
}

/// The number of workers: what the file says, or as many as there are clients that are workers themselves.
fn check_workers(
    raw: &RawFile,
    arrivals: &Arrivals,
    place: TextPlace<'_>,
) -> Result<u32, ServerError> {
    let Arrivals::Clients {
        clients,
        think_us,
        in_process: true,
        ..
    } = arrivals
    else {
        return number_in_range(raw.workers.as_ref(), "workers", 1, (1, MAX_WORKERS), place);
    };
    let given = raw.arrivals.get_ref();
    if let Some(workers) = &raw.workers {
        let message = "with `in_process = true` each client is a worker: give `clients` only";
        return Err(place.error_at_value(workers, message));
    }
    if let Some(think) = given.think_us.as_ref().filter(|_| think_us.value > 0.0) {
        let message =
            "with `in_process = true` clients do not think: put their CPU work into `work_us`";
        return Err(place.error_at_value(think, message));
    }
    if let Some(cpus) = &given.interrupt_cpus {
        let message = "with `in_process = true` no network interrupts a CPU";
        return Err(place.error_at_value(cpus, message));
    }
    if let Some(too_many) = given.clients.as_ref().filter(|_| *clients > MAX_WORKERS) {
        let message = format!("with `in_process = true` there may be {MAX_WORKERS} clients");
        return Err(place.error_at_value(too_many, message));
    }
    Ok(*clients)
}

fn check_warm_up(
    raw: &RawFile,
    arrivals: &Arrivals,
    place: TextPlace<'_>,
) -> Result<Nanoseconds, ServerError> {
    let Some(seconds) = &raw.warm_up_s else {
        return Ok(match arrivals {
            Arrivals::Recorded { .. } => Nanoseconds::ZERO,
            _ => seconds_to_time(DEFAULT_WARM_UP),
        });
    };
    time_in_range(seconds, "warm_up_s", 0.0, place)
}

fn check_duration(
    raw: &RawFile,
    arrivals: &Arrivals,
    warm_up: Nanoseconds,
    place: TextPlace<'_>,
) -> Result<Nanoseconds, ServerError> {
    let recorded = match arrivals {
        Arrivals::Recorded { times } => times.last().copied(),
        _ => None,
    };
    let asked = (raw.seconds.as_ref())
        .map(|seconds| time_in_range(seconds, "seconds", 0.001, place))
        .transpose()?;
    let Some(last) = recorded else {
        return Ok(asked.unwrap_or(seconds_to_time(DEFAULT_SECONDS)));
    };
    let rest = Nanoseconds(last.0.saturating_sub(warm_up.0));
    if rest.0 == 0 {
        let message = "there is nothing left to count: the recorded arrivals end with the warm-up";
        return Err(place.error_at_value(&raw.arrivals, message));
    }
    Ok(asked.map_or(rest, |asked| asked.min(rest)))
}

fn check_arrivals(
    raw: &Spanned<RawArrivals>,
    place: TextPlace<'_>,
    folder: Option<&Path>,
) -> Result<(Arrivals, Vec<usize>), ServerError> {
    let arrivals = raw.get_ref();
    let pattern = *arrivals.pattern.get_ref();
    refuse_keys_of_other_patterns(arrivals, place)?;
    let checked = match pattern {
        Pattern::Fixed | Pattern::Poisson => {
            let rate = required(arrivals.rate.as_ref(), "rate", &arrivals.pattern, place)?;
            Arrivals::Open {
                rate: figure_in_range(rate, "rate", RATES, place)?,
                spacing: match pattern {
                    Pattern::Poisson => Spacing::Exponential,
                    _ => Spacing::Fixed,
                },
            }
        }
        Pattern::Clients => {
            let clients = required(
                arrivals.clients.as_ref(),
                "clients",
                &arrivals.pattern,
                place,
            )?;
            Arrivals::Clients {
                clients: number_in_range(Some(clients), "clients", 1, (1, MAX_CLIENTS), place)?,
                think_us: match &arrivals.think_us {
                    Some(think) => figure_in_range(think, "think_us", (0.0, 1e9), place)?,
                    None => ServerFigure::declared(0.0),
                },
                spacing: arrivals
                    .think
                    .as_ref()
                    .map_or(Spacing::Fixed, |think| *think.get_ref()),
                in_process: (arrivals.in_process.as_ref())
                    .is_some_and(|in_process| *in_process.get_ref()),
            }
        }
        Pattern::Recorded => Arrivals::Recorded {
            times: recorded_times(arrivals, place, folder)?,
        },
    };
    Ok((checked, check_interrupt_cpus(arrivals, place)?))
}

/// Refuses keys of `[arrivals]` that mean nothing for its pattern.
fn refuse_keys_of_other_patterns(
    arrivals: &RawArrivals,
    place: TextPlace<'_>,
) -> Result<(), ServerError> {
    let keys = [
        (
            span_if_given(arrivals.rate.as_ref()),
            "rate",
            "fixed and poisson",
        ),
        (
            span_if_given(arrivals.clients.as_ref()),
            "clients",
            "clients",
        ),
        (
            span_if_given(arrivals.think_us.as_ref()),
            "think_us",
            "clients",
        ),
        (span_if_given(arrivals.think.as_ref()), "think", "clients"),
        (
            span_if_given(arrivals.in_process.as_ref()),
            "in_process",
            "clients",
        ),
        (span_if_given(arrivals.times.as_ref()), "times", "recorded"),
        (
            span_if_given(arrivals.column.as_ref()),
            "column",
            "recorded",
        ),
        (span_if_given(arrivals.unit.as_ref()), "unit", "recorded"),
        (
            span_if_given(arrivals.times_ns.as_ref()),
            "times_ns",
            "recorded",
        ),
    ];
    let pattern = *arrivals.pattern.get_ref();
    for (span, key, patterns) in keys {
        let fits = match patterns {
            "clients" => pattern == Pattern::Clients,
            "recorded" => pattern == Pattern::Recorded,
            _ => matches!(pattern, Pattern::Fixed | Pattern::Poisson),
        };
        if let Some(span) = span.filter(|_| !fits) {
            let message = format!("`{key}` is for the arrival patterns {patterns}");
            return Err(place.error_at_byte(span.start, message));
        }
    }
    Ok(())
}

fn span_if_given<T>(value: Option<&Spanned<T>>) -> Option<Range<usize>> {
    value.map(Spanned::span)
}

fn recorded_times(
    arrivals: &RawArrivals,
    place: TextPlace<'_>,
    folder: Option<&Path>,
) -> Result<Vec<Nanoseconds>, ServerError> {
    match (&arrivals.times, &arrivals.times_ns) {
        (Some(_), Some(inline)) => {
            Err(place.error_at_value(inline, "`times` or `times_ns`, not both"))
        }
        (None, Some(inline)) => {
            let times: Vec<f64> = inline.get_ref().iter().map(|ns| *ns as f64).collect();
            times::from_first_arrival(&times, TimeUnit::Ns).map_err(|fault| {
                place.error_at_value(inline, format!("`times_ns`: {}", fault.message))
            })
        }
        (Some(name), None) => {
            let unit = arrivals
                .unit
                .as_ref()
                .map_or(TimeUnit::S, |unit| *unit.get_ref());
            let column = arrivals
                .column
                .as_ref()
                .map(|column| column.get_ref().as_str());
            times::read_times_file(name, column, unit, place, folder)
        }
        (None, None) => {
            let message = "recorded arrivals need `times`, a CSV file";
            Err(place.error_at_value(&arrivals.pattern, message))
        }
    }
}

fn check_interrupt_cpus(
    arrivals: &RawArrivals,
    place: TextPlace<'_>,
) -> Result<Vec<usize>, ServerError> {
    let Some(listed) = &arrivals.interrupt_cpus else {
        return Ok(Vec::new());
    };
    let mut cpus = listed.get_ref().clone();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() || cpus.last().is_some_and(|cpu| *cpu > MAX_CPU) {
        let message = format!(
            "`interrupt_cpus` lists CPUs by number, 0 to {MAX_CPU}; without it, all are interrupted"
        );
        return Err(place.error_at_value(listed, message));
    }
    Ok(cpus)
}

fn check_request(
    raw: &Spanned<RawRequest>,
    place: TextPlace<'_>,
) -> Result<(CpuWork, CpuWork, Vec<DiskCall>), ServerError> {
    let request = raw.get_ref();
    if let Some(mhz) = &request.at_mhz {
        require_range(mhz, *mhz.get_ref(), "at_mhz", (1.0, 1e5), place)?;
        if request.work_us.is_none() && request.reply_us.is_none() {
            let message = "`at_mhz` is the clock of `work_us` and `reply_us`, and there is neither";
            return Err(place.error_at_value(mhz, message));
        }
    }
    let amount = WorkKeys { request, place };
    let Some(work) = amount.read(
        "work",
        request.work_us.as_ref(),
        request.work_kcycles.as_ref(),
        0.001,
    )?
    else {
        let message = "[request] needs `work_us` or `work_kcycles`: CPU work of each request";
        return Err(place.error_at_value(raw, message));
    };
    let reply = amount
        .read(
            "reply",
            request.reply_us.as_ref(),
            request.reply_kcycles.as_ref(),
            0.0,
        )?
        .unwrap_or(CpuAmount::Kilocycles(ServerFigure::declared(0.0)));
    if let Some(more) = request.disk.get(MAX_CALL_KINDS) {
        let message = format!("there may be {MAX_CALL_KINDS} [[request.disk]]");
        return Err(place.error_at_value(more, message));
    }
    let calls = request
        .disk
        .iter()
        .map(|call| check_call(call.get_ref(), place));
    let spacing = request.spread;
    Ok((
        CpuWork {
            mean: work,
            spacing,
        },
        CpuWork {
            mean: reply,
            spacing,
        },
        calls.collect::<Result<_, _>>()?,
    ))
}

/// Keys of `[request]` that give amounts of work.
struct WorkKeys<'a> {
    request: &'a RawRequest,
    place: TextPlace<'a>,
}

impl WorkKeys<'_> {
    /// Reads an amount that is given in us or in thousands of cycles, at least `least` of these; `None` if neither is there.
    fn read(
        &self,
        name: &str,
        us: Option<&Spanned<ServerFigure>>,
        kilocycles: Option<&Spanned<ServerFigure>>,
        least: f64,
    ) -> Result<Option<CpuAmount>, ServerError> {
        match (us, kilocycles) {
            (Some(_), Some(cycles)) => {
                let message = format!("`{name}_us` or `{name}_kcycles`, not both");
                Err(self.place.error_at_value(cycles, message))
            }
            (Some(us), None) => {
                let key = format!("{name}_us");
                Ok(Some(CpuAmount::Time {
                    us: figure_in_range(us, &key, (least, 1e7), self.place)?,
                    at_mhz: self.request.at_mhz.as_ref().map(|mhz| *mhz.get_ref()),
                }))
            }
            (None, Some(cycles)) => {
                let key = format!("{name}_kcycles");
                let figure = figure_in_range(cycles, &key, (least, 1e8), self.place)?;
                Ok(Some(CpuAmount::Kilocycles(figure)))
            }
            (None, None) => Ok(None),
        }
    }
}

fn check_call(raw: &RawCall, place: TextPlace<'_>) -> Result<DiskCall, ServerError> {
    let bytes = *raw.bytes.get_ref();
    if !(SECTOR..=MAX_CALL_BYTES).contains(&bytes) || !bytes.is_multiple_of(SECTOR) {
        let message = format!(
            "`bytes` is {bytes}, and may be {SECTOR} to {MAX_CALL_BYTES}, a multiple of {SECTOR}"
        );
        return Err(place.error_at_value(&raw.bytes, message));
    }
    let direction = *raw.operation.get_ref();
    let direct = raw.direct.as_ref().is_none_or(|direct| *direct.get_ref());
    if let (CallDirection::Write, false, Some(at)) = (direction, direct, &raw.direct) {
        let message = "a buffered write ends in memory: give its CPU time in `work_us`, and what \
             reaches the disk in [log]";
        return Err(place.error_at_value(at, message));
    }
    let share = match &raw.share {
        Some(share) => figure_in_range(share, "share", (1e-6, 1.0), place)?,
        None => ServerFigure::declared(1.0),
    };
    Ok(DiskCall {
        direction,
        bytes,
        direct,
        calls: number_in_range(raw.calls.as_ref(), "calls", 1, (1, MAX_CALLS), place)?,
        together: raw.together,
        share,
    })
}

fn required<'a, T>(
    value: Option<&'a Spanned<T>>,
    key: &str,
    pattern: &Spanned<Pattern>,
    place: TextPlace<'_>,
) -> Result<&'a Spanned<T>, ServerError> {
    value
        .ok_or_else(|| place.error_at_value(pattern, format!("this arrival pattern needs `{key}`")))
}
