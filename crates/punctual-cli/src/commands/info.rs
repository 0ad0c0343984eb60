//! `punctual info`: what answers.

use crate::exit::Failure;
use crate::output::Output;
use crate::target::TargetFlags;

pub(crate) const EXAMPLES: &str = "\
Examples:
  punctual info
  punctual info --db app.db --json";

pub(crate) async fn run(target: TargetFlags, output: &mut Output) -> Result<(), Failure> {
    let info = target.ask(async |admin| admin.info().await).await?;
    if output.is_json() {
        return output.json(&info);
    }
    output.line(format!("version   {}", info.version))?;
    output.line(format!("store     {} {} (tables {})", info.store, info.store_version, info.schema_version))?;
    output.line(format!("location  {}", info.location))?;
    output.line(format!("zones     {}", info.tzdb))?;
    let runs =
        if info.runs.is_empty() { "nothing: it only shows what is stored".to_owned() } else { info.runs.join(", ") };
    output.line(format!("runs      {runs}"))
}
