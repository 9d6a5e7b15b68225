//! fio's terse output (`--minimal`), version 3: a line per job or group, its fields between semicolons.
//!
//! Which field is what: fio's documentation, "Terse output".

use wakepath_results::{Run, RunKey};

use super::Imported;
use super::fio::PERCENTILES;

/// How a line of this version begins.
const VERSION: &str = "3;";

/// Fields of a line: those of reads, and how many further on the same one of writes is.
const NAME: usize = 2;
const ERROR: usize = 4;
const KIBIBYTES: usize = 5;
const IOPS: usize = 7;
const RUNTIME_MS: usize = 8;
const CLAT_PERCENTILES: std::ops::Range<usize> = 17..37;
const LAT_MAX: usize = 38;
const LAT_MEAN: usize = 39;
const TO_WRITES: usize = 41;

/// A job's name and its metrics.
type Job = (String, Vec<(String, f64)>);

/// Whether this is fio's terse output, possibly with warnings in front.
pub(super) fn is_terse(text: &str) -> bool {
    text.lines().any(is_result)
}

/// Whether a line is a job's, of any version.
fn is_result(line: &str) -> bool {
    let mut fields = line.split(';');
    let version = fields.next().unwrap_or_default();
    version.parse::<u8>().is_ok() && fields.next().is_some_and(|f| f.starts_with("fio-"))
}

/// Each job is a workload.
pub(super) fn import(name: &str, text: &str) -> Result<Imported, String> {
    let mut runs: Vec<Run> = Vec::new();
    for (workload, metrics) in parse(text)? {
        let repeat = runs.iter().filter(|r| r.key.workload == workload).count() as u32;
        let key = RunKey {
            workload,
            policy: name.to_owned(),
            repeat,
        };
        let mut run = Run::new(key, None, repeat, repeat);
        run.metrics = metrics;
        runs.push(run);
    }
    let version = text
        .lines()
        .find(|l| is_result(l))
        .and_then(|l| l.split(';').nth(1));
    Ok(Imported::of("fio", version.unwrap_or_default(), runs))
}

/// The jobs of terse output with their metrics.
///
/// # Errors
/// Another version, fields that are missing or no numbers, a job that failed or did nothing.
pub(super) fn parse(text: &str) -> Result<Vec<Job>, String> {
    let mut jobs = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, l)| is_result(l)) {
        let at = |message: String| format!("line {}: {message}", number + 1);
        if !line.starts_with(VERSION) {
            let message = "terse output of fio is read in version 3 (--terse-version=3), or take --output-format=json";
            return Err(at(message.to_owned()));
        }
        jobs.push(job(line).map_err(at)?);
    }
    if jobs.is_empty() {
        return Err("no line of fio's terse output (\"3;fio-...\")".to_owned());
    }
    Ok(jobs)
}

/// Reads or writes of a job.
struct Direction {
    bytes: f64,
    ios: f64,
    seconds: f64,
    mean_us: f64,
    max_us: f64,
    percentiles: Vec<(String, f64)>,
}

fn job(line: &str) -> Result<Job, String> {
    let fields: Vec<&str> = line.split(';').collect();
    let text = |index: usize| fields.get(index).copied().unwrap_or_default();
    if text(ERROR) != "0" {
        return Err(format!(
            "fio job '{}' ended with error {}",
            text(NAME),
            text(ERROR)
        ));
    }
    let number = |index: usize| {
        let value = text(index).parse::<f64>().ok();
        value.filter(|v| v.is_finite() && *v >= 0.0).ok_or_else(|| {
            format!(
                "field {} is '{}', and should be a number",
                index + 1,
                text(index)
            )
        })
    };
    let direction = |from: usize| {
        let seconds = number(RUNTIME_MS + from)? / 1e3;
        let percentiles = CLAT_PERCENTILES.filter_map(|index| {
            let (percent, us) = text(index + from).split_once("%=")?;
            let (metric, _) = PERCENTILES.iter().find(|(_, key)| *key == percent)?;
            Some((
                (*metric).to_owned(),
                us.parse().ok().filter(|us: &f64| us.is_finite())?,
            ))
        });
        Ok::<_, String>(Direction {
            bytes: number(KIBIBYTES + from)? * 1024.0,
            ios: number(IOPS + from)? * seconds,
            seconds,
            mean_us: number(LAT_MEAN + from)?,
            max_us: number(LAT_MAX + from)?,
            percentiles: percentiles.collect(),
        })
    };
    let mut all = Vec::new();
    for from in [0, TO_WRITES] {
        all.extend(Some(direction(from)?).filter(|d| d.ios > 0.0 && d.seconds > 0.0));
    }
    if all.is_empty() {
        return Err("fio has finished no request".to_owned());
    }
    let sum = |of: fn(&Direction) -> f64| all.iter().map(of).sum::<f64>();
    let largest = |of: fn(&Direction) -> f64| all.iter().map(of).fold(0.0, f64::max);
    let seconds = largest(|d| d.seconds);
    let mut metrics = vec![
        ("iops".to_owned(), sum(|d| d.ios) / seconds),
        ("bandwidth_mbs".to_owned(), sum(|d| d.bytes) / seconds / 1e6),
        (
            "mean_us".to_owned(),
            sum(|d| d.mean_us * d.ios) / sum(|d| d.ios),
        ),
    ];
    // Percentiles of two distributions say nothing about those of both together.
    if let [one] = &all[..] {
        metrics.extend(one.percentiles.iter().cloned());
    } else {
        let [reads, writes] = [all[0].mean_us, all[1].mean_us];
        metrics.push(("read_mean_us".to_owned(), reads));
        metrics.push(("write_mean_us".to_owned(), writes));
    }
    metrics.push(("max_us".to_owned(), largest(|d| d.max_us)));
    Ok((text(NAME).to_owned(), metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_terse_output_of_version_3_is_refused() {
        assert!(!is_terse("{\"fio version\": \"fio-3.33\"}"));
        let error = |text: &str| parse(text).unwrap_err();
        assert!(error("5;fio-3.33;a;0;0").contains("--terse-version=3"));
        assert!(error("3;fio-3.33;a;0;5").contains("job 'a' ended with error 5"));
        assert!(error("fio: hello\n3;fio-3.33;a;0;0").contains("line 2: field "));
        assert!(error("nothing").contains("3;fio-"));
    }
}
