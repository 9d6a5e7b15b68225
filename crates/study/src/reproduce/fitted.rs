//! Fitted figures: chosen with published values in view.

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::MachineFigure;
use wakepath_workloads::Workload;
use wakepath_workloads::rtapp::{RtAppEvent, RtTask};

use crate::file::FittedEntry;
use crate::plan::{Plan, PlannedWorkload};

/// A figure in a model or workload that was fitted to published values.
#[derive(Clone, Debug, Serialize)]
pub struct FittedFigure {
    /// Name of the model or workload, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Key of the figure in the model's file.
    pub key: String,
    /// Value.
    pub value: f64,
    /// Fitting target.
    pub fitted: String,
}

/// All fitted figures in an experiment's machines, drives and workloads.
pub(super) fn list_fitted_figures(plan: &Plan) -> Vec<FittedFigure> {
    let mut all: Vec<FittedFigure> = Vec::new();
    for (index, machine) in plan.machines.iter().enumerate() {
        let (name, drive) = plan.machine_and_drive_names(index);
        for MachineFigure { key, figure, .. } in machine.model.iter().flat_map(Machine::figures) {
            let Some(fitted) = figure.fitted_to() else {
                continue;
            };
            let of_drive = plan.compares_drives() && key.starts_with("drive.");
            let model = if of_drive { drive } else { name };
            if !all
                .iter()
                .any(|f: &FittedFigure| f.key == key && f.model.as_deref() == Some(model))
            {
                all.push(FittedFigure {
                    model: Some(model.to_owned()),
                    key,
                    value: figure.value,
                    fitted: fitted.to_owned(),
                });
            }
        }
    }
    // A study with a single model needs no name for it.
    if all.iter().all(|figure| figure.model == all[0].model) {
        for figure in &mut all {
            figure.model = None;
        }
    }
    for planned in &plan.workloads {
        for figure in list_fitted_server_figures(plan, planned) {
            if !all
                .iter()
                .any(|known| known.key == figure.key && known.model == figure.model)
            {
                all.push(figure);
            }
        }
    }
    for entry in &plan.file.fitted {
        all.extend(list_fitted_work(plan, entry));
    }
    all
}

/// Figures of a server whose origin is a fit.
fn list_fitted_server_figures(plan: &Plan, planned: &PlannedWorkload) -> Vec<FittedFigure> {
    let Some(Workload::Server(file)) = planned.simulated_workload() else {
        return Vec::new();
    };
    let file_name = plan.file.workload[planned.entry].server.as_ref();
    let figures = file.figures().into_iter().filter_map(|(key, figure)| {
        Some(FittedFigure {
            model: file_name.map(|name| name.get_ref().clone()),
            key: key.to_owned(),
            value: figure.value,
            fitted: figure.fitted_to()?.to_owned(),
        })
    });
    figures.collect()
}

/// The fitted work in an rt-app file, with the names that an entry gives.
fn list_fitted_work(plan: &Plan, entry: &FittedEntry) -> Vec<FittedFigure> {
    let planned = plan
        .workloads
        .iter()
        .find(|w: &&PlannedWorkload| w.name == *entry.workload.get_ref());
    let Some((planned, Workload::RtApp(file))) =
        planned.and_then(|w| Some((w, w.simulated_workload()?)))
    else {
        return Vec::new();
    };
    let file_name = plan.file.workload[planned.entry].rt_app.as_ref();
    let events = file.tasks.iter().flat_map(RtTask::events);
    let work: Vec<f64> = events
        .filter_map(|event| match event {
            RtAppEvent::Run(time) => Some(time.0 as f64 / 1e3),
            _ => None,
        })
        .collect();
    let sum: f64 = work.iter().sum();
    let mean = entry.mean.iter().filter(|_| !work.is_empty());
    let mean = mean.map(|key| (key, sum / work.len() as f64));
    let each = entry.figures.iter().zip(work.iter().copied());
    let figures = each.chain(mean).map(|(key, value)| FittedFigure {
        model: file_name.map(|name| name.get_ref().clone()),
        key: key.clone(),
        value,
        fitted: entry.to.clone(),
    });
    figures.collect()
}
