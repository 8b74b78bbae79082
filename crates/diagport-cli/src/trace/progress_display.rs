//! The figures of a running recording on a terminal, four times a second.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

use super::recorder::Progress;

/// Nothing where standard error is no terminal.
pub(crate) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    drawing: Option<tokio::task::JoinHandle<()>>,
}

impl ProgressDisplay {
    /// No display at all.
    pub(crate) fn none() -> Self {
        Self { bar: None, drawing: None }
    }

    pub(crate) fn start(progress: &Arc<Progress>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::none();
        }
        let bar = ProgressBar::new_spinner();
        let template = "[{elapsed_precise}] {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        let (drawn, progress) = (bar.clone(), Arc::clone(progress));
        let drawing = tokio::spawn(async move {
            loop {
                let bytes = HumanBytes(progress.bytes.load(Ordering::Relaxed));
                let events = progress.events.load(Ordering::Relaxed);
                let lost = progress.lost.load(Ordering::Relaxed);
                drawn.set_message(format!("{bytes}  events={events} lost={lost}  (Enter or Ctrl-C ends)"));
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        });
        Self { bar: Some(bar), drawing: Some(drawing) }
    }

    /// Runs something that prints lines, with the figures out of the way.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    pub(crate) fn finish(self) {
        if let Some(drawing) = self.drawing {
            drawing.abort();
        }
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
