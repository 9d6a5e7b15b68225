//! What a day costs: energy, money, hours on a battery.

use anyhow::bail;
use serde::Serialize;
use wakepath_tune::{AnswerOrigin, DailyLoad, Finalist, SearchAnswer};

/// Days of a year, leap days apart.
const DAYS_PER_YEAR: f64 = 365.0;

#[derive(clap::Args)]
pub(crate) struct CostArgs {
    /// Price of a kWh, in any currency.
    #[arg(long, value_name = "PRICE", value_parser = parse_number_from_0)]
    price: Option<f64>,
    /// Energy of the battery in Wh; needs --platform-mw.
    #[arg(long, value_name = "WH", requires = "platform_mw", value_parser = parse_number_from_0)]
    battery_wh: Option<f64>,
    /// Power of what is not modelled, such as the display, in mW.
    #[arg(long, value_name = "MW", requires = "battery_wh", value_parser = parse_number_from_0)]
    platform_mw: Option<f64>,
}

/// A day's cost with the best policy set, beside a day with the policies in force.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DayCosts {
    /// A day with the policies in force.
    pub(crate) in_force: DayCost,
    /// A day with the best policy set, if there is one.
    pub(crate) best: Option<DayCost>,
}

/// Energy and cost of a day.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DayCost {
    /// Energy in Wh.
    pub(crate) wh: f64,
    /// Price of the energy for a year, in the currency of `--price`.
    pub(crate) price_per_year: Option<f64>,
    /// Hours that the battery lasts, with the platform's power.
    pub(crate) battery_hours: Option<f64>,
}

impl DayCost {
    /// Energy of a year of such days in kWh.
    pub(crate) fn kwh_per_year(&self) -> f64 {
        kwh_per_year(self.wh)
    }
}

fn parse_number_from_0(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    number
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "expected a number of 0 or more, such as 0.3".to_owned())
}

fn kwh_per_year(wh_per_day: f64) -> f64 {
    wh_per_day * DAYS_PER_YEAR / 1000.0
}

impl CostArgs {
    /// Whether the arguments ask for a cost, which takes power at rest.
    pub(crate) fn is_cost_asked_for(&self) -> bool {
        self.price.is_some() || self.battery_wh.is_some()
    }

    /// Energy and cost of a day with the best policy set and with the policies in force; `None` where power at rest is not
    /// known.
    pub(crate) fn cost_with_best_and_in_force(
        &self,
        answer: &SearchAnswer,
        loads: &[DailyLoad],
    ) -> anyhow::Result<Option<DayCosts>> {
        let metric = match answer.origin {
            AnswerOrigin::Simulation => "mean_mw",
            AnswerOrigin::Recording => "drive_mw",
            AnswerOrigin::RecordedIdle => {
                anyhow::ensure!(
                    !self.is_cost_asked_for(),
                    "--price and --battery-wh need the power of a whole day, and a recording has that of its idle CPUs; \
                     leave them out, or extract a job (`wakepath workload extract`)"
                );
                return Ok(None);
            }
            AnswerOrigin::Measurement => "package_mw",
        };
        let Some(in_force) = self.daily_cost_if_power_known(metric, &answer.in_force, loads) else {
            if self.is_cost_asked_for() {
                bail!(
                    "--price and --battery-wh need {metric} in every load and at rest, and a run has none; minimise {metric}, \
                     or name a machine with figures of power"
                );
            }
            return Ok(None);
        };
        let best = answer.best.as_ref();
        Ok(Some(DayCosts {
            in_force,
            best: best.and_then(|best| self.daily_cost_if_power_known(metric, best, loads)),
        }))
    }

    fn daily_cost_if_power_known(
        &self,
        metric: &str,
        finalist: &Finalist,
        loads: &[DailyLoad],
    ) -> Option<DayCost> {
        let mut milliwatt_hours = 0.0;
        let mut rest = 24.0;
        let power_of = |name: &str| {
            let figures = finalist.loads.iter().find(|figures| figures.load == name)?;
            let (_, power) = figures.metrics.iter().find(|(name, _)| name == metric)?;
            Some(*power)
        };
        for load in loads {
            milliwatt_hours += power_of(&load.name)? * load.hours;
            rest -= load.hours;
        }
        if rest > 1e-9 {
            milliwatt_hours += power_of("rest")? * rest;
        }
        let wh = milliwatt_hours / 1000.0;
        let mean_mw = milliwatt_hours / 24.0;
        Some(DayCost {
            wh,
            price_per_year: self.price.map(|price| kwh_per_year(wh) * price),
            battery_hours: self
                .battery_wh
                .zip(self.platform_mw)
                .map(|(battery, platform)| battery * 1000.0 / (mean_mw + platform)),
        })
    }
}
