//! Live view for `wakepath status --watch`.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use wakepath_system::status::{CpuStatus, Status};
use wakepath_units::printable;

use crate::until::EndSignals;

use super::activity::{
    DRIVE_HEADER, StatusSpans, describe_machine_in_line, drive_status_row,
    format_latency_limit_and_lease, format_mhz_or_empty,
};

/// Colours of idle states, shallowest first; deeper states are darker.
const COLOURS: [Color; 6] = [
    Color::LightRed,
    Color::Yellow,
    Color::Green,
    Color::Cyan,
    Color::Blue,
    Color::DarkGray,
];

/// Interval at which signals are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the status `first`, and then each next status, until q, Esc, Ctrl-C or another signal. Puts the terminal back
/// on a panic, too.
pub(super) fn show_live_view_until_quit(
    first: &Status,
    mut spans: StatusSpans<'_>,
    interval: Duration,
) -> anyhow::Result<()> {
    let signals = EndSignals::new()?;
    // Puts the terminal back even on a panic.
    let mut terminal = ratatui::try_init()?;
    let result = redraw_until_quit(&mut terminal, first, &mut spans, interval, &signals);
    ratatui::try_restore()?;
    result
}

fn redraw_until_quit(
    terminal: &mut DefaultTerminal,
    first: &Status,
    spans: &mut StatusSpans<'_>,
    interval: Duration,
    signals: &EndSignals,
) -> anyhow::Result<()> {
    let option = spans.root_option();
    terminal.draw(|frame| draw_status(frame, first, &option))?;
    while !wait_and_tell_if_quit(interval, signals)? {
        let status = spans.status_since_last_call();
        terminal.draw(|frame| draw_status(frame, &status, &option))?;
    }
    Ok(())
}

/// Waits until the next status is due; `true` if the user wants to leave before.
fn wait_and_tell_if_quit(interval: Duration, signals: &EndSignals) -> anyhow::Result<bool> {
    let end = Instant::now() + interval;
    loop {
        if signals
            .wait_for_signal_up_to(Some(Duration::ZERO))
            .is_some()
        {
            return Ok(true);
        }
        let left = end.saturating_duration_since(Instant::now());
        if !event::poll(left.min(LOOK))? {
            if left <= LOOK {
                return Ok(false);
            }
            continue;
        }
        if let Event::Key(key) = event::read()? {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                KeyCode::Char('c') if control => return Ok(true),
                _ => {}
            }
        }
    }
}

fn draw_status(frame: &mut Frame<'_>, status: &Status, option: &str) {
    // Number of lines for the drives' rows, their frame and header.
    let drives = status.drives.len() as u16 + 3;
    let areas = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(drives),
        Constraint::Length(1),
    ])
    .split(frame.area());
    let head = vec![
        Line::from(escape_terminal_controls(&describe_machine_in_line(
            status, option,
        ))),
        idle_state_colour_legend(status),
    ];
    frame.render_widget(ratatui::widgets::Paragraph::new(head), areas[0]);
    frame.render_widget(cpu_table_with_residency_bars(status, areas[1]), areas[1]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(
        status
            .drives
            .iter()
            .map(|d| Row::new(drive_status_row(d).map(|cell| escape_terminal_controls(&cell)))),
        [Constraint::Length(13); DRIVE_HEADER.len()],
    )
    .header(Row::new(DRIVE_HEADER).style(bold))
    .block(Block::bordered().title("drives"));
    frame.render_widget(table, areas[2]);
    frame.render_widget(Line::from("q quits"), areas[3]);
}

/// A driver's name without terminal control characters.
fn escape_terminal_controls(text: &str) -> String {
    printable::escape_for_one_line(text).into_owned()
}

/// A legend with the colours of idle states.
fn idle_state_colour_legend(status: &Status) -> Line<'static> {
    let mut spans = Vec::new();
    if let Some(cpu) = status.cpus.first() {
        for (state, colour) in cpu.states.iter().zip(COLOURS.into_iter().cycle()) {
            spans.push(Span::styled("\u{2588} ", Style::new().fg(colour)));
            let off = if state.disabled { " (off)" } else { "" };
            spans.push(Span::raw(format!(
                "{}{off}  ",
                escape_terminal_controls(&state.name)
            )));
        }
    }
    spans.push(Span::raw("rest: busy"));
    Line::from(spans)
}

fn cpu_table_with_residency_bars(status: &Status, area: Rect) -> Table<'static> {
    let fixed = [5, 9, 6, 10];
    let width = usize::from(area.width).saturating_sub(fixed.iter().sum::<usize>() + 6);
    let rows = status.cpus.iter().map(|cpu| {
        let entries: f64 = cpu.states.iter().filter_map(|s| s.entries_per_s).sum();
        Row::new(vec![
            Line::from(cpu.cpu.to_string()),
            Line::from(format_latency_limit_and_lease(cpu)),
            Line::from(format_mhz_or_empty(cpu)),
            Line::from(format!("{entries:.0}")),
            residency_bar(cpu, width),
        ])
    });
    let widths = fixed
        .map(|n| Constraint::Length(n as u16))
        .into_iter()
        .chain([Constraint::Min(10)]);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(rows, widths)
        .header(Row::new(["cpu", "limit us", "MHz", "sleeps/s", "time in idle states"]).style(bold))
        .block(Block::bordered().title("CPUs"))
}

/// A bar that shows the share of time in each idle state.
fn residency_bar(cpu: &CpuStatus, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    let (mut share, mut drawn) = (0.0, 0);
    for (state, colour) in cpu.states.iter().zip(COLOURS.into_iter().cycle()) {
        share += state.share.unwrap_or(0.0);
        // Positions of ends are rounded, not lengths, so that rounding errors do not add up.
        let end = ((share * width as f64).round() as usize).min(width);
        spans.push(Span::styled(
            "\u{2588}".repeat(end.saturating_sub(drawn)),
            Style::new().fg(colour),
        ));
        drawn = end.max(drawn);
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use wakepath_system::{Root, System};

    use super::*;

    #[test]
    fn the_view_shows_cpus_states_and_drives() {
        let captured = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/examples/captured-laptop"
        );
        let system = System::new(Root::at_directory(captured));
        let status = Status::activity_since_boot(&system, true);
        let mut terminal = Terminal::new(TestBackend::new(120, 16)).unwrap();
        terminal
            .draw(|frame| draw_status(frame, &status, ""))
            .unwrap();
        let buffer = terminal.backend().buffer();
        let text: String = (0..16)
            .map(|y| {
                let line = (0..120).map(|x| buffer[(x, y)].symbol());
                line.collect::<String>() + "\n"
            })
            .collect();
        for part in [
            "menu (intel_idle)",
            "C10",
            "nvme0n1",
            "auto",
            "off",
            "q quits",
            "none",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        // CPU 0 spent 2381 s out of 2500 s in C10.
        let cpu0 = text.lines().find(|l| l.starts_with("\u{2502}0 ")).unwrap();
        let blocks = cpu0.matches('\u{2588}').count();
        assert!((80..90).contains(&blocks), "{blocks} in\n{text}");
    }

    #[test]
    fn a_bar_is_never_longer_than_its_place() {
        let captured = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/examples/captured-laptop"
        );
        let system = System::new(Root::at_directory(captured));
        let mut status = Status::activity_since_boot(&system, false);
        for state in &mut status.cpus[0].states {
            state.share = Some(0.9);
        }
        for width in [0, 1, 7, 200] {
            let drawn = residency_bar(&status.cpus[0], width).width();
            assert_eq!(drawn, width);
        }
    }
}
