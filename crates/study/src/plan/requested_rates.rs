//! Rates that workloads ask for.

use wakepath_results::RequestedRate;
use wakepath_workloads::block_trace::BlockTrace;
use wakepath_workloads::server::ServerFile;
use wakepath_workloads::{Workload, fio};

/// The rates that a workload's fio jobs ask for, in file order, or the rate of a server's arrivals.
pub fn requested_rates(workload: &Workload) -> Vec<RequestedRate> {
    let file = match workload {
        Workload::Fio(file) => file,
        Workload::RtApp(_) | Workload::Tasks(_) => return Vec::new(),
        Workload::Server(file) => return rate_of_arrivals(file).into_iter().collect(),
    };
    if let Some(trace) = workload.block_trace() {
        return rate_of_block_trace(trace, &file.jobs[0].name)
            .into_iter()
            .collect();
    }
    file.jobs
        .iter()
        .flat_map(|job: &fio::FioJob| {
            let rates = job.requested_rates();
            let each = [("read", rates.read), ("write", rates.write)];
            let (name, processes) = (job.name.clone(), f64::from(job.numjobs));
            let poisson = job.rate_poisson;
            each.into_iter().filter_map(move |(direction, rate)| {
                let (rate, unit) = match rate? {
                    fio::Rate::Bytes(bytes) => (bytes, "bytes"),
                    fio::Rate::Ios(ios) => (ios, "I/Os"),
                };
                Some(RequestedRate {
                    job: name.clone(),
                    direction: direction.to_owned(),
                    per_second: rate as f64 * processes,
                    unit: unit.to_owned(),
                    poisson,
                })
            })
        })
        .collect()
}

/// The rate of a trace, which a replay has to keep; `None` for a dependent replay, or a trace without a duration.
fn rate_of_block_trace(trace: &BlockTrace, job: &str) -> Option<RequestedRate> {
    let seconds = trace.totals.duration.as_secs_f64();
    (!trace.is_dependent && seconds > 0.0).then(|| RequestedRate {
        job: job.to_owned(),
        direction: "request".to_owned(),
        per_second: trace.totals.requests() as f64 / seconds,
        unit: "I/Os".to_owned(),
        poisson: false,
    })
}

/// The rate of a server's arrivals; `None` with clients, who wait for replies.
fn rate_of_arrivals(file: &ServerFile) -> Option<RequestedRate> {
    file.open_rate().map(|per_second| RequestedRate {
        job: file.name.clone(),
        direction: "request".to_owned(),
        per_second,
        unit: "requests".to_owned(),
        // What arrives is counted, so that chance makes no difference.
        poisson: false,
    })
}
