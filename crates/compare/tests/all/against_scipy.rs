//! Means, effect sizes and p-values as SciPy has them; and where there are many runs, so that methods
//! must agree, the interval of BCa.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may stop where its premises fail"
)]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use wakepath_compare::{Better, Design, Gain, Mean, Metric, estimate_gain};

const MEANS: [Mean; 3] = [Mean::Arithmetic, Mean::Harmonic, Mean::Geometric];

fn metric(mean: Mean) -> Metric {
    Metric {
        name: "any".into(),
        title: "any".into(),
        meaning: "any".into(),
        unit: "".into(),
        better: Better::Higher,
        mean,
        headline: true,
    }
}

/// Asks SciPy; nothing if it is not installed.
fn scipy(cases: &[Value]) -> Option<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../.cache/python/bin/python");
    let there = Command::new(&python).args(["-c", "import scipy"]).output();
    if !there.is_ok_and(|o| o.status.success()) {
        return None;
    }
    let mut child = Command::new(python)
        .arg(root.join("tests/against_scipy.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let text = serde_json::to_string(cases).unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn figures_are_those_of_scipy() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut cases = Vec::new();
    let mut ours: Vec<Gain> = Vec::new();
    for number in 0_usize..60 {
        let mean = MEANS[number % 3];
        // Few runs and many.
        let runs = [5, 8, 400][number / 3 % 3];
        let noise = LogNormal::new(0.0, [0.02, 0.2][number % 2]).unwrap();
        let mut series = |level: f64| -> Vec<f64> {
            (0..runs)
                .map(|_| level * noise.sample(&mut random))
                .collect()
        };
        let (baseline, series) = (series(100.0), series(100.0 + (number % 7) as f64));
        let found = estimate_gain(&metric(mean), &baseline, &series, Design::Unpaired, 0.95, 1);
        ours.push(found.unwrap());
        cases.push(json!({"mean": mean, "baseline": baseline, "series": series}));
    }
    let Some(theirs) = scipy(&cases) else {
        let reason = "SciPy is not installed (scripts/setup-python.sh)";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        eprintln!("skipped: figures_are_those_of_scipy: {reason}");
        return;
    };
    for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        let number_of = |value: &Value| value.as_f64().expect("a number");
        let near = |ours: f64, theirs: &Value, tolerance: f64| {
            let theirs = number_of(theirs);
            assert!(
                (ours - theirs).abs() <= tolerance,
                "case {number}: {ours} is not {theirs}"
            );
        };
        for i in [0, 1] {
            near(ours.means[i], &theirs["means"][i], 1e-9 * ours.means[i]);
        }
        near(ours.effect.unwrap(), &theirs["effect"], 1e-9);
        if ours.runs[0] < 100 {
            continue;
        }
        let width = ours.interval[1] - ours.interval[0];
        for i in [0, 1] {
            near(ours.interval[i], &theirs["interval"][i], 0.1 * width);
        }
        // On logarithms the geometric mean is an arithmetic one, and this is Welch's test. Large p-values
        // say nothing, and resampling makes them imprecise.
        if MEANS[number % 3] == Mean::Geometric {
            let welch = number_of(&theirs["p_value"]);
            let tolerance = if welch < 0.2 { 0.03 } else { 0.1 };
            near(ours.p_value, &theirs["p_value"], tolerance);
        }
    }
}
