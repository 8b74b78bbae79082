//! `diagport demo`, from its start to its end.

use anyhow::ensure;
use support::background::run;
use support::binary::diagport_command;
use support::{HANG, temp_folder};

use crate::case::{Bound, Case, Figure, Measure, Side};
use crate::options::Options;

const PROMISE: f64 = 60.0;

pub(crate) fn case(options: &Options) -> Case {
    let prepare = |_: Side| {
        let measure = || {
            let folder = temp_folder()?;
            let mut command = diagport_command(&["demo"])?;
            command.current_dir(folder.path()).env("TMPDIR", folder.path());
            let finished = run(command, 2 * HANG)?.expect_code(0)?;
            ensure!(folder.path().join("demo.nettrace").is_file(), "there is no demo.nettrace");
            Ok(vec![finished.elapsed.into()])
        };
        Ok(Box::new(measure) as Measure)
    };
    Case {
        name: "demo",
        figures: vec![Figure::time("wall", Bound::AtMost(PROMISE))],
        rounds: options.scale(3, 1),
        peer: None,
        prepare: Box::new(prepare),
    }
}
