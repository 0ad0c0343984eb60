//! `punctual doctor`: what is wrong with a daemon's surroundings, and what to do about it.

use crate::commands::config::{Said, SettingArgs};
use crate::doctor::{Finding, Findings, State, look_at_database, look_at_settings};
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::target::TargetFlags;
use clap::Args;
use serde::Serialize;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  punctual doctor --db app.db
  punctual doctor --config /etc/punctual/punctual.toml
  punctual doctor --db postgres://anna@db.example.org/app --json | jq '.findings[] | select(.state != \"ok\")'

It looks at the configuration and its certificates, whether the database can be reached, the version of its tables, its clock \
beside this host's, the time zones of its schedules, and the leases of its workers. Nothing is changed: a daemon may run meanwhile. \
The exit code is 1 where a check failed; a warning leaves it at 0.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    findings: &'a [Finding],
}

pub(crate) async fn run(args: DoctorArgs, target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    if target.addr.is_some() {
        return Err(Failure::usage("--addr names a daemon to speak to; name its database by --db, or its --config"));
    }
    let mut findings = Findings::default();
    match args.settings.read(target.db).and_then(Said::resolve) {
        Ok(settings) => {
            look_at_settings(&settings, &mut findings);
            look_at_database(&settings, &mut findings).await;
        }
        // Without settings nobody knows which database is meant.
        Err(failure) => findings.fail(
            "configuration",
            failure.to_string(),
            "`punctual config check FILE` names everything that is wrong with a file",
        ),
    }
    let failed = findings.count(State::Fail);
    if output.is_json() {
        output.json(&Report { ok: failed == 0, findings: findings.all() })?;
    } else {
        // No table: what a finding says is what it is printed for, and a table cuts long cells.
        for one in findings.all() {
            let advice = one.advice.map(|advice| format!("; {advice}")).unwrap_or_default();
            let (state, finding) = (one.state.name(), one.finding.replace('\n', " "));
            output.line(format!("{state:<5} {check:<14} {finding}{advice}", check = one.check))?;
        }
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "unwell", "a check failed; it says what to do")),
        failed => Err(Failure::new(Exit::Failed, "unwell", format!("{failed} checks failed; each says what to do"))),
    }
}
