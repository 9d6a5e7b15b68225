//! A fleet decided by several processes, such as workers in a cluster.
//!
//! The first process surveys the fleet and divides what is left into [`FleetPart`]s: the search for a class, or the replay
//! of a recording. Parts and answers are text (TOML, whose numbers come back unchanged). Any process answers a part, in
//! any order, and the first makes the report, with the bytes of `wakepath fleet`.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wakepath_units::printable;

use crate::FleetError;
use crate::class_search::{ClassAnswer, ClassSearch, DecisionRequest};
use crate::decision::{divide_by_size, merge_answers};
use crate::known_runs::KnownRuns;
use crate::question::FleetQuestion;
use crate::replayed::{
    RecordingReplay, ReplayedRecording, add_up_replays, list_recordings_to_replay, move_path,
};
use crate::report::FleetReport;
use crate::search::FleetSearch;
use crate::survey::FleetSurvey;

/// A surveyed fleet, divided into parts.
#[derive(Clone, Debug)]
pub struct FleetParts {
    survey: FleetSurvey,
    fewest_machines: usize,
    /// What classes are searched for; `None`: they are not.
    question: Option<FleetQuestion>,
    parts: Vec<FleetPart>,
}

/// A part of a fleet's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetPart {
    work: PartWork,
    /// Files that the part reads.
    #[serde(default)]
    files: Vec<PartFile>,
}

/// A file that a part reads. Size and time tell whether an earlier answer holds for the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PartFile {
    path: PathBuf,
    bytes: u64,
    /// Time of the last change, in ns since 1970; 0: unknown.
    modified_ns: u64,
}

/// The work of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum PartWork {
    /// The search for a class.
    Search {
        request: FleetSearch,
        class: ClassSearch,
    },
    /// The stand-in of a class cannot be described.
    Undescribed {
        /// Why.
        why: String,
    },
    /// The replay of a recording.
    Replay(RecordingReplay),
}

/// The answer to a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartAnswer(AnswerContent);

/// Content of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum AnswerContent {
    /// The answer of a class's search.
    Class(ClassAnswer),
    /// A replayed recording.
    Recording(ReplayedRecording),
}

impl FleetParts {
    /// Divides what is left after the survey: the searches, that of the largest class first, then the replays. Without
    /// `search` classes get no decision. A class with fewer than `fewest_machines` machines joins the nearest class.
    pub fn divide(
        survey: FleetSurvey,
        search: Option<&FleetSearch>,
        fewest_machines: usize,
    ) -> Self {
        let mut parts = Vec::new();
        if let Some(search) = search {
            let (large, _) = divide_by_size(&survey, fewest_machines);
            let files: Vec<PartFile> = search
                .loads
                .iter()
                .map(|load| PartFile::describe(&load.path))
                .collect();
            parts.extend(large.into_iter().map(|class| FleetPart {
                work: match ClassSearch::describe(class) {
                    Ok(class) => PartWork::Search {
                        request: search.clone(),
                        class,
                    },
                    Err(why) => PartWork::Undescribed { why },
                },
                files: files.clone(),
            }));
        }
        for class in &survey.classes {
            let recordings = list_recordings_to_replay(class).into_iter();
            parts.extend(recordings.map(|recording| FleetPart {
                files: vec![PartFile::describe(recording.path())],
                work: PartWork::Replay(recording),
            }));
        }
        Self {
            survey,
            fewest_machines,
            question: search.map(FleetQuestion::from_search),
            parts,
        }
    }

    /// The parts.
    pub fn parts(&self) -> &[FleetPart] {
        &self.parts
    }

    /// Makes the report of the answers, one for each part, in order.
    ///
    /// # Errors
    /// An answer is missing, or belongs to another part.
    pub fn make_report(&self, answers: Vec<PartAnswer>) -> Result<FleetReport, FleetError> {
        if answers.len() != self.parts.len() {
            return Err(FleetError::Part {
                what: "answers",
                problem: format!("{} for {} parts", answers.len(), self.parts.len()),
            });
        }
        let mut class_answers = Vec::new();
        let mut replayed = Vec::new();
        for (part, answer) in self.parts.iter().zip(answers) {
            if !part.work.is_answered_by(&answer.0) {
                return Err(FleetError::Part {
                    what: "answer",
                    problem: "to another part".to_owned(),
                });
            }
            match answer.0 {
                AnswerContent::Class(class) => class_answers.push(class),
                AnswerContent::Recording(recording) => replayed.push(recording),
            }
        }
        let mut left = replayed.into_iter();
        let mut replays = Vec::new();
        for class in &self.survey.classes {
            let recordings = list_recordings_to_replay(class);
            let own: Vec<ReplayedRecording> = left.by_ref().take(recordings.len()).collect();
            replays.extend(add_up_replays(class, &recordings, own));
        }
        let decisions = self.question.clone().map(|question| {
            merge_answers(&self.survey, question, self.fewest_machines, class_answers)
        });
        Ok(FleetReport {
            survey: self.survey.clone(),
            replays,
            decisions,
        })
    }
}

impl PartWork {
    /// Whether an answer is to this work, as far as answers tell.
    fn is_answered_by(&self, answer: &AnswerContent) -> bool {
        match (self, answer) {
            (Self::Replay(_), AnswerContent::Recording(_)) => true,
            (Self::Search { class, .. }, AnswerContent::Class(answer)) => answer
                .decided_class()
                .is_none_or(|decided| decided == class.class()),
            (Self::Undescribed { .. }, AnswerContent::Class(answer)) => {
                answer.decided_class().is_none()
            }
            _ => false,
        }
    }
}

impl FleetPart {
    /// Reads the text of a part.
    ///
    /// # Errors
    /// The text is not that of a part.
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        read_text("part", text)
    }

    /// The part as text.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub fn to_text(&self) -> Result<String, FleetError> {
        write_text("part", self)
    }

    /// Files that the part reads, by absolute path.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Has the part read files below the folder `to` that lie below `from` where the fleet was divided. Both are absolute. The answer
    /// names files as before.
    pub fn move_files(&mut self, from: &Path, to: &Path) {
        for file in &mut self.files {
            move_path(&mut file.path, from, to);
        }
        if let PartWork::Replay(recording) = &mut self.work {
            recording.move_file(from, to);
        }
    }

    /// Answers the part, on all threads of the current rayon pool. The answer does not depend on their number.
    ///
    /// # Errors
    /// A load cannot be read, or fits no search; it was called off. An unusable class or recording is an answer.
    pub fn answer(&self, cancelled: &AtomicBool) -> Result<PartAnswer, FleetError> {
        let content = match &self.work {
            PartWork::Search { request, class } => {
                let search = request.make_request()?;
                AnswerContent::Class(class.answer(&DecisionRequest {
                    search: &search,
                    over: &request.over,
                    // Joining is for the first process.
                    fewest_machines: 0,
                    cancelled,
                    report_requests: &|_| {},
                    known_runs: &KnownRuns::default(),
                })?)
            }
            PartWork::Undescribed { why } => {
                AnswerContent::Class(ClassAnswer::Undecided { why: why.clone() })
            }
            PartWork::Replay(recording) => {
                AnswerContent::Recording(recording.replay(&|| !cancelled.load(Ordering::Relaxed))?)
            }
        };
        Ok(PartAnswer(content))
    }
}

impl PartAnswer {
    /// Reads the text of an answer.
    ///
    /// # Errors
    /// The text is not that of an answer.
    pub fn parse(text: &str) -> Result<Self, FleetError> {
        read_text("answer", text)
    }

    /// The answer as text.
    ///
    /// # Errors
    /// A count is beyond 63 bits.
    pub fn to_text(&self) -> Result<String, FleetError> {
        write_text("answer", self)
    }
}

fn read_text<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, FleetError> {
    toml::from_str(text).map_err(|error| FleetError::Part {
        what,
        problem: printable::escape_for_one_line(error.message()).into_owned(),
    })
}

fn write_text(what: &'static str, value: &impl Serialize) -> Result<String, FleetError> {
    toml::to_string(value).map_err(|error| FleetError::Part {
        what,
        problem: error.to_string(),
    })
}

impl PartFile {
    /// Describes a file. Size and time of a missing file are 0; whoever reads the file says more.
    fn describe(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self {
            path: path.to_owned(),
            bytes: found.as_ref().map_or(0, Metadata::len),
            modified_ns: found.as_ref().and_then(modified_ns).unwrap_or(0),
        }
    }
}

fn modified_ns(found: &Metadata) -> Option<u64> {
    let modified = found.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(modified.as_nanos()).ok()
}
