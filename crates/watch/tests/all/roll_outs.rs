//! Error rates of the canary over simulated roll-outs.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use statrs::distribution::{ContinuousCDF, LogNormal};
use wakepath_watch::canary::{
    CanaryMetric, CanaryVerdict, FleetSeries, Judgement, NO_UPPER_END_NS, PlanRequest, RollOut,
    UnixHour, judge_roll_out, plan_roll_out,
};

use crate::error_rates::{
    BEFORE, CONFIRMED_POWER, ConfirmedPlan, DAYS, count_verdicts, judge, metric, plan_and_simulate,
    random_model,
};
use crate::simulated_fleet::{FleetModel, Reported, name_of_machine, simulate_fleet};

fn assert_at_most_5_percent(wrong: u64, roll_outs: u64, what: &str) {
    println!(
        "{what}: {wrong} of {roll_outs} simulated roll-outs, {:.2} %",
        100.0 * wrong as f64 / roll_outs as f64
    );
    assert!(wrong * 20 <= roll_outs, "{what}: {wrong} of {roll_outs}");
}

#[test]
fn harmless_changes_are_taken_back_in_at_most_5_percent() {
    let [_, _, taken_back] = count_verdicts(1000, 0.0, 0.05, Reported::Power);
    assert_at_most_5_percent(taken_back, 1000, "false alarms");
}

#[test]
fn harmless_changes_to_a_percentile_are_taken_back_in_at_most_5_percent() {
    let [_, _, taken_back] = count_verdicts(60, 0.0, 0.05, Reported::Latencies);
    assert_at_most_5_percent(taken_back, 60, "false alarms of p99_us");
}

#[test]
fn harm_at_the_limit_goes_on_in_at_most_5_percent() {
    let [gone_on, _, taken_back] = count_verdicts(1000, 0.1, 0.1, Reported::Power);
    assert_at_most_5_percent(gone_on, 1000, "missed harm");
    assert!(
        taken_back > 300,
        "harm of 10 % was found {taken_back} times"
    );
}

#[test]
fn harmless_changes_go_on_and_gross_harm_is_taken_back_within_a_day() {
    let model = FleetModel {
        machines: 40,
        changed: 10,
        ..random_model(1, 0.0, Reported::Latencies)
    };
    let harmless = judge(&simulate_fleet(model, 1), model, DAYS, 0.2);
    assert_eq!(harmless.verdict, CanaryVerdict::GoOn);
    let gross = FleetModel { harm: 1.0, ..model };
    let judgement = judge(&simulate_fleet(gross, 1), gross, DAYS, 0.2);
    assert_eq!(judgement.verdict, CanaryVerdict::TakeBack);
    assert!(judgement.decided_at_hours.unwrap() <= 24, "{judgement:?}");
    let at_decision = judgement
        .analyses
        .iter()
        .find(|analysis| analysis.verdict.is_some());
    let change = at_decision.unwrap().change_percent.unwrap();
    assert!((60.0..150.0).contains(&change), "{change}");
}

#[test]
fn looking_every_hour_changes_no_verdict() {
    for (seed, harm) in [(3, 0.0), (4, 0.1), (5, 0.3)] {
        let model = random_model(seed, harm, Reported::Power);
        let whole = simulate_fleet(model, seed);
        let at_the_end = judge(&whole, model, DAYS, 0.05);
        let mut first_decision = None;
        for hours in 0..=i64::from(DAYS) * 24 {
            let until = FleetModel {
                hours: BEFORE + hours + 1,
                ..model
            };
            let so_far = cut_after(&whole, until.hours);
            let judgement = judge(&so_far, until, DAYS, 0.05);
            if judgement.decided_at_hours.is_some() {
                first_decision.get_or_insert((judgement.verdict, judgement.decided_at_hours));
            }
            assert_eq!(
                first_decision.is_some(),
                judgement.decided_at_hours.is_some(),
                "a decision stays"
            );
        }
        let end = (at_the_end.verdict, at_the_end.decided_at_hours);
        assert_eq!(first_decision.unwrap_or((CanaryVerdict::Stop, None)), end);
    }
}

/// A fleet 9 hours after a harmless change of 4 in 12 machines.
fn nine_hours_after_a_change() -> (FleetModel, FleetSeries) {
    let model = FleetModel {
        machines: 12,
        changed: 4,
        hours: BEFORE + 10,
        ..random_model(1, 0.0, Reported::Power)
    };
    let whole = FleetModel {
        hours: BEFORE + 100,
        ..model
    };
    (model, cut_after(&simulate_fleet(whole, 8), model.hours))
}

#[test]
fn a_clock_that_is_ahead_moves_no_analysis() {
    let (model, series) = nine_hours_after_a_change();
    let expected = judge(&series, model, DAYS, 0.05);
    assert_eq!(expected.analyses.len(), 4);
    assert_eq!(expected.notes, Vec::<String>::new());
    // Machine 0 was changed, machine 11 was left alone.
    for (machine, ahead) in [(11, 40 * 24), (11, 20), (0, 40 * 24)] {
        let mut stepped = series.clone();
        let name = name_of_machine(machine);
        let samples = stepped.machines.get_mut(&name).unwrap();
        samples.add_sample(UnixHour(model.hours + ahead), 1000.0);
        let judgement = judge(&stepped, model, DAYS, 0.05);
        assert_eq!(judgement.hours, expected.hours);
        assert_eq!(judgement.verdict, expected.verdict);
        assert_eq!(judgement.silent, expected.silent);
        assert_eq!(
            format!("{:?}", judgement.analyses),
            format!("{:?}", expected.analyses)
        );
        let [note] = &judgement.notes[..] else {
            panic!("{:?}", judgement.notes)
        };
        assert!(note.starts_with(&format!("{name} has values")), "{note}");
        assert!(note.contains("its clock is ahead"), "{note}");
    }
}

#[test]
fn changed_machines_that_all_fall_silent_are_named() {
    let (model, mut series) = nine_hours_after_a_change();
    for machine in 0..model.changed {
        let samples = series.machines.get_mut(&name_of_machine(machine)).unwrap();
        *samples = samples.until_hour(UnixHour(model.change + 1));
    }
    let judgement = judge(&series, model, DAYS, 0.05);
    assert_eq!(judgement.silent.len(), model.changed);
    assert_eq!(judgement.hours, 9);
}

#[test]
fn a_change_after_the_last_value_is_said() {
    let (model, series) = nine_hours_after_a_change();
    let later = FleetModel {
        change: model.hours + 5,
        ..model
    };
    let judgement = judge(&series, later, DAYS, 0.05);
    assert!(judgement.analyses.is_empty());
    assert_eq!(
        judgement.notes,
        ["the values end 6 hours before the change; is --since right?"]
    );
}

/// The series without hours from `end` on.
fn cut_after(series: &FleetSeries, end: i64) -> FleetSeries {
    FleetSeries {
        machines: series
            .machines
            .iter()
            .map(|(name, machine)| (name.clone(), machine.until_hour(UnixHour(end))))
            .collect(),
        notes: Vec::new(),
    }
}

fn plan_and_confirm(trials: u32, roll_outs: u64) {
    let plans = plan_and_simulate(trials, roll_outs);
    assert!(!plans.is_empty());
    for plan in &plans {
        println!(
            "{} days, {} of {} machines: 10 % harm planned to be found in {:.1} %, found in {:.1} % of {roll_outs} fresh roll-outs",
            plan.days,
            plan.changed,
            plan.machines,
            100.0 * plan.planned,
            100.0 * plan.found
        );
        assert!(plan.false_alarms <= 0.05, "{plan:?}");
        assert!(CONFIRMED_POWER.contains(&plan.found), "{plan:?}");
        assert!(plan.is_confirmed(trials, roll_outs), "{plan:?}");
    }
}

#[test]
fn a_plan_far_off_is_not_confirmed() {
    for (trials, roll_outs, found, is_confirmed) in [
        (10_000, 3000, 0.79, true),
        (10_000, 3000, 0.89, true),
        (10_000, 3000, 0.905, false),
        (10_000, 3000, 0.74, false),
        (1000, 300, 0.94, true),
        (1000, 300, 0.97, false),
        (1000, 300, 0.69, false),
    ] {
        let plan = ConfirmedPlan {
            days: 4,
            changed: 10,
            machines: 60,
            planned: 0.82,
            false_alarms: 0.01,
            found,
        };
        let confirmed = plan.is_confirmed(trials, roll_outs);
        assert_eq!(confirmed, is_confirmed, "{found} of {roll_outs}");
    }
}

#[test]
fn planned_machines_and_days_find_the_harm() {
    plan_and_confirm(1000, 300);
}

#[test]
fn a_plan_is_the_same_for_any_number_of_threads() {
    let history = FleetModel {
        machines: 12,
        hours: 4 * 24,
        change: 0,
        changed: 0,
        harm: 0.0,
        reported: Reported::Power,
    };
    let series = simulate_fleet(history, 5);
    let request = PlanRequest {
        harm: 0.3,
        machines: 12,
        power: 0.8,
        alpha: 0.05,
        trials: 300,
        seed: 9,
    };
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| plan_roll_out(&series, &metric(Reported::Power), &request).unwrap())
    };
    assert_eq!(with_threads(1), with_threads(3));
}

#[test]
#[ignore = "nightly: 20,000 simulated roll-outs"]
fn error_rates_over_ten_thousand_roll_outs() {
    let [gone_on, stopped, taken_back] = count_verdicts(10_000, 0.0, 0.05, Reported::Power);
    println!("no harm: {gone_on} went on, {stopped} stopped, {taken_back} were taken back");
    assert_at_most_5_percent(taken_back, 10_000, "false alarms");
    let [missed, _, _] = count_verdicts(10_000, 0.1, 0.1, Reported::Power);
    assert_at_most_5_percent(missed, 10_000, "missed harm");
    let [_, _, percentile] = count_verdicts(1000, 0.0, 0.05, Reported::Latencies);
    assert_at_most_5_percent(percentile, 1000, "false alarms of p99_us");
}

#[test]
#[ignore = "nightly: 15,000 simulated roll-outs"]
fn planned_machines_and_days_find_the_harm_in_thousands_of_roll_outs() {
    plan_and_confirm(10_000, 3000);
}

/// A fleet of 60 machines, each with values near 100 for 14 days. From the tenth day on 20 of them have `factor` times as much.
fn fleet_with_small_noise(factor: f64) -> FleetSeries {
    let mut series = FleetSeries::default();
    let mut random = Pcg64Mcg::seed_from_u64(4);
    for machine in 0..60 {
        let samples = series.machines.entry(format!("h{machine:02}")).or_default();
        for hour in 0..336 {
            let noise = 1.0 + 0.01 * (random.random::<f64>() - 0.5);
            let change = if machine < 20 && hour >= 240 {
                factor
            } else {
                1.0
            };
            samples.add_sample(UnixHour(hour), 100.0 * noise * change);
        }
    }
    series
}

#[test]
fn tolerated_harm_is_not_taken_back_in_the_first_hours() {
    let metric = metric(Reported::Power);
    for (factor, tolerated, verdict, by_hours) in [
        (1.02, 0.05, CanaryVerdict::GoOn, 24),
        (1.10, 0.50, CanaryVerdict::GoOn, 24),
        (1.10, 0.05, CanaryVerdict::TakeBack, 1),
    ] {
        let series = fleet_with_small_noise(factor);
        let roll_out = RollOut {
            changed: (0..20).map(|machine| format!("h{machine:02}")).collect(),
            since_s: UnixHour(240).begin_s(),
            days: 4,
            tolerated,
            alpha: 0.05,
        };
        let judgement = judge_roll_out(&series, &roll_out, &metric).unwrap();
        let decided = (judgement.verdict, judgement.decided_at_hours);
        assert_eq!(decided, (verdict, Some(by_hours)), "{factor} {tolerated}");
    }
}

#[test]
fn a_tail_beyond_the_last_bucket_is_never_harmless() {
    let mut series = FleetSeries::default();
    for machine in 0..8_u64 {
        let samples = series.machines.entry(format!("h{machine}")).or_default();
        for hour in 0..288_u64 {
            let more = if machine < 2 && hour >= 240 { 5.0 } else { 1.0 };
            let at = UnixHour(hour as i64);
            samples.add_requests(at, 0, 100_000, 1000.0);
            samples.add_requests(
                at,
                100_000,
                200_000,
                (80 + (hour * 7 + machine * 3) % 9) as f64,
            );
            let slow = (30 + (hour * 5 + machine) % 5) as f64;
            samples.add_requests(at, 200_000, NO_UPPER_END_NS, slow * more);
        }
    }
    let roll_out = RollOut {
        changed: ["h0", "h1"].map(str::to_owned).into(),
        since_s: UnixHour(240).begin_s(),
        days: 2,
        tolerated: 0.05,
        alpha: 0.05,
    };
    let p99 = CanaryMetric::from_name("p99_us", None).unwrap();
    let judgement = judge_roll_out(&series, &roll_out, &p99).unwrap();
    assert_eq!(judgement.verdict, CanaryVerdict::Stop);
    assert_eq!(judgement.uncounted.len(), 8);
    // A percentile that both sides have below the bound is judged as ever.
    let p50 = CanaryMetric::from_name("p50_us", None).unwrap();
    let judgement = judge_roll_out(&series, &roll_out, &p50).unwrap();
    assert!(judgement.uncounted.is_empty());
}

/// A fleet of 12 machines with buckets as services have them, and latencies of median `scale` us: requests are log-normal with a
/// spread of 0.4, and those of four machines take `factor` times as long from the tenth day on.
fn fleet_with_wide_buckets(scale: f64, factor: f64) -> FleetSeries {
    let mut series = FleetSeries::default();
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let ends_us = [0.0, 50.0, 100.0, 150.0, 200.0, 300.0, 500.0, 1e3, 5e3];
    for machine in 0..12 {
        let samples = series.machines.entry(format!("h{machine:02}")).or_default();
        let own = 1.0 + 0.04 * (random.random::<f64>() - 0.5);
        for hour in 0..288 {
            let harmed = if machine < 4 && hour >= 240 {
                factor
            } else {
                1.0
            };
            let noise = 1.0 + 0.02 * (random.random::<f64>() - 0.5);
            let latency = LogNormal::new((scale * own * noise * harmed).ln(), 0.4).unwrap();
            for ends in ends_us.windows(2) {
                let [low, high] = [ends[0], ends[1]].map(|us| latency.cdf(us));
                let [low_ns, high_ns] = [ends[0], ends[1]].map(|us| (us * 1e3) as u64);
                samples.add_requests(UnixHour(hour), low_ns, high_ns, 1e4 * (high - low));
            }
        }
    }
    series
}

fn judge_wide_buckets(series: &FleetSeries) -> Judgement {
    let roll_out = RollOut {
        changed: (0..4).map(|machine| format!("h{machine:02}")).collect(),
        since_s: UnixHour(240).begin_s(),
        days: 2,
        tolerated: 0.05,
        alpha: 0.05,
    };
    let p99 = CanaryMetric::from_name("p99_us", None).unwrap();
    judge_roll_out(series, &roll_out, &p99).unwrap()
}

#[test]
fn harm_within_a_wide_bucket_never_goes_on() {
    for scale in [110.0, 130.0, 150.0, 170.0, 180.0, 190.0, 200.0, 240.0] {
        for factor in [1.08, 1.1] {
            let judgement = judge_wide_buckets(&fleet_with_wide_buckets(scale, factor));
            assert_ne!(judgement.verdict, CanaryVerdict::GoOn, "{scale} {factor}");
            let last = judgement.analyses.last().unwrap();
            let percent = (factor - 1.0) * 100.0;
            assert!(last.low_percent.is_none_or(|low| low < percent), "{last:?}");
            assert!(
                last.high_percent.is_none_or(|high| high > percent),
                "{last:?}"
            );
        }
        let harmless = judge_wide_buckets(&fleet_with_wide_buckets(scale, 1.0));
        assert_ne!(harmless.verdict, CanaryVerdict::TakeBack, "{scale}");
        let wide = |note: &String| note.contains("buckets wider than the tolerated 5 %");
        assert!(harmless.notes.iter().any(wide), "{:?}", harmless.notes);
    }
    let harmless = judge_wide_buckets(&fleet_with_wide_buckets(180.0, 1.0));
    assert_eq!(harmless.verdict, CanaryVerdict::GoOn);
}
