//! `demo`: the whole product in one run that ends by itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use comfy_table::{CellAlignment, Table};
use diagport_client::profiles::DEFAULT_RUNDOWN_KEYWORD;
use diagport_client::{Client, CollectRequest, Deadline, KeywordFallback, Target, TargetSelector, resolve};
use diagport_codec::{BufferingMode, ProviderRequest, StackWalk};
use diagport_nettrace::{Completion, LossCounter, Reader, Record};
use diagport_server::{OwnProcess, ServerBuilder, ServerHandle};
use diagport_session::{Event, EventDefinition, EventLevel, EventPipe, ProcessDescription, WriteOutcome};
use diagport_transport::IpcStream;
use serde::Serialize;
use tokio::io::AsyncReadExt;

use crate::console;
use crate::exit::{Exit, Failure};
use crate::output_file::OutputFile;

/// Threads of the demonstration's service.
const WORKERS: u64 = 4;
/// Requests that each of them serves; four events a request.
const REQUESTS_PER_WORKER: u64 = 125_000;
/// The session's budget, far below what is emitted: Block mode makes the workers wait for the reader instead of losing.
const BUDGET_MB: u32 = 1;
/// For each step that waits for the other side.
const STEP_LIMIT: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 256 * 1024;

/// See it all at work: a service with a port, recorded over its real socket without loss
///
/// Runs a small service with a diagnostic port inside this process, records it in Block mode with our own client over the socket, and reports what was emitted
/// and what arrived. Needs no .NET. Leaves the recording in a file that .NET trace tools read.
#[derive(Debug, Args)]
pub(crate) struct DemoCommand {
    /// The recording
    #[arg(short, long, value_name = "FILE", default_value = "demo.nettrace")]
    output: PathBuf,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The service's two providers.
#[derive(Debug, Clone)]
struct Service {
    request_start: Event<(i64, String)>,
    request_stop: Event<(i64, i32)>,
    lookup: Event<(String, bool)>,
    stored: Event<(i64, f64)>,
}

#[derive(Debug, Default, Serialize)]
struct ProviderCount {
    emitted: u64,
    received: u64,
}

#[derive(Debug, Serialize)]
struct DemoReport {
    file: PathBuf,
    bytes: u64,
    seconds: f64,
    emitted: u64,
    received: u64,
    lost: u64,
    dropped_by_server: u64,
    providers: BTreeMap<String, ProviderCount>,
}

/// What the client has read.
#[derive(Debug)]
struct Received {
    bytes: u64,
    lost: u64,
    by_provider: BTreeMap<String, u64>,
}

impl DemoCommand {
    pub(crate) async fn run(&self) -> Result<(), Failure> {
        let output = OutputFile::open(&self.output, Deadline::after(STEP_LIMIT)).await?;
        let pipe = EventPipe::new(ProcessDescription::of_this_process());
        let service = Service::register(&pipe).map_err(|error| failed(error.to_string()))?;
        // Not from the environment: what is set there for other programs (a port that suspends, no port at all) would keep
        // the demonstration from its end.
        let server = ServerBuilder::new(pipe.clone(), Arc::new(OwnProcess::new()))
            .start()
            .map_err(|error| failed(error.to_string()))?;
        let result = self.record(&server, &pipe, service, output).await;
        server.shutdown(STEP_LIMIT).await;
        let report = result?;
        if self.json {
            console::result_json(&report)
        } else {
            report.print()
        }
        report.verdict()
    }

    async fn record(
        &self,
        server: &ServerHandle,
        pipe: &EventPipe,
        service: Service,
        output: OutputFile,
    ) -> Result<DemoReport, Failure> {
        server.wait_resumed().await;
        let port = server.default_port_path().ok_or_else(|| {
            failed(format!(
                "the demonstration's port could not be opened: {}",
                server.unusable_ports().join("; ")
            ))
        })?;
        self.say(&format!("A service with process id {} listens at {}.", std::process::id(), port.display()));
        let client = Client::new(Target::Listening(resolve(&TargetSelector::Port(port.to_owned()))?));
        let collection = client.collect(&request(), Deadline::after(STEP_LIMIT)).await?;
        self.say(&format!(
            "Recording session {} in Block mode with a budget of {BUDGET_MB} MB.",
            collection.session_id
        ));

        let (file, _) = output
            .begin()
            .map_err(|error| failed(format!("cannot write {}: {error}", self.output.display())))?;
        let start = Instant::now();
        let reading = tokio::spawn(read_to_end(collection.stream, file));
        let emitted = tokio::task::spawn_blocking(move || service.work())
            .await
            .map_err(|_| failed("a worker of the demonstration has panicked"))?;
        client.stop_tracing(collection.session_id, Deadline::after(STEP_LIMIT)).await?;
        let received = tokio::time::timeout(STEP_LIMIT, reading)
            .await
            .map_err(|_| Failure::new(Exit::TimedOut, "the stream did not end after the stop was answered"))?
            .map_err(|_| failed("the demonstration's reader has panicked"))??;
        let seconds = start.elapsed().as_secs_f64();

        let mut providers: BTreeMap<String, ProviderCount> = BTreeMap::new();
        for (provider, emitted) in emitted {
            providers.entry(provider.to_owned()).or_default().emitted = emitted;
        }
        for (provider, received) in received.by_provider {
            // The stream's own events (ProcessInfo) come on top of the service's.
            if let Some(count) = providers.get_mut(&provider) {
                count.received = received;
            }
        }
        Ok(DemoReport {
            file: self.output.clone(),
            bytes: received.bytes,
            seconds,
            emitted: providers.values().map(|count| count.emitted).sum(),
            received: providers.values().map(|count| count.received).sum(),
            lost: received.lost,
            dropped_by_server: pipe.statistics().dropped,
            providers,
        })
    }

    fn say(&self, line: &str) {
        if !self.json {
            console::result_line(line);
        }
    }
}

impl Service {
    fn register(pipe: &EventPipe) -> Result<Self, diagport_session::DefineEventError> {
        let web = pipe.provider("Demo-Web");
        let store = pipe.provider("Demo-Store");
        let informational =
            |id, name: &str| EventDefinition::new(id, name).keywords(1).level(EventLevel::Informational);
        Ok(Self {
            request_start: web.define(informational(1, "RequestStart").opcode(1), ["number", "path"])?,
            request_stop: web.define(informational(2, "RequestStop").opcode(2), ["number", "status"])?,
            lookup: store.define(informational(1, "Lookup"), ["key", "hit"])?,
            stored: store.define(informational(2, "Stored"), ["bytes", "seconds"])?,
        })
    }

    /// Serves all requests on all workers, and says how many events each provider has emitted.
    fn work(&self) -> [(&'static str, u64); 2] {
        let counts: Vec<(u64, u64)> = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..WORKERS).map(|worker| scope.spawn(move || self.serve(worker))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
        });
        let sum = |part: fn(&(u64, u64)) -> u64| counts.iter().map(part).sum();
        [("Demo-Web", sum(|count| count.0)), ("Demo-Store", sum(|count| count.1))]
    }

    fn serve(&self, worker: u64) -> (u64, u64) {
        let seen = |outcome: WriteOutcome| u64::from(outcome != WriteOutcome::Disabled);
        let (mut web, mut store) = (0, 0);
        for request in 0..REQUESTS_PER_WORKER {
            let number = (worker * REQUESTS_PER_WORKER + request) as i64;
            web += seen(self.request_start.write((number, "/orders/recent")));
            store += seen(self.lookup.write(("orders", request % 8 != 0)));
            store += seen(self.stored.write((number % 4096, 0.000_25)));
            web += seen(self.request_stop.write((number, 200)));
        }
        (web, store)
    }
}

impl DemoReport {
    fn print(&self) {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["provider", "emitted", "received"]);
        for (name, count) in &self.providers {
            table.add_row([name.clone(), count.emitted.to_string(), count.received.to_string()]);
        }
        table.add_row(["total".to_owned(), self.emitted.to_string(), self.received.to_string()]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        console::result_line("");
        table.lines().for_each(|line| console::result_line(line.trim_end()));
        console::result_line("");
        console::result_line(&format!(
            "events emitted={} received={} lost={} bytes={} seconds={:.2} events_per_second={:.0} file={}",
            self.emitted,
            self.received,
            self.lost,
            self.bytes,
            self.seconds,
            self.received as f64 / self.seconds,
            self.file.display(),
        ));
    }

    fn verdict(&self) -> Result<(), Failure> {
        let each_complete = self.providers.values().all(|count| count.emitted == count.received);
        let is_exact = each_complete && self.emitted == WORKERS * REQUESTS_PER_WORKER * 4;
        if is_exact && self.lost == 0 && self.dropped_by_server == 0 {
            return Ok(());
        }
        Err(failed("the recording is not complete, which Block mode promises: this is a defect of ours"))
    }
}

fn request() -> CollectRequest {
    let provider = |name: &str| ProviderRequest::new(name, 1, EventLevel::Informational as u32);
    CollectRequest {
        providers: vec![provider("Demo-Web"), provider("Demo-Store")],
        circular_buffer_mb: BUDGET_MB,
        buffering_mode: BufferingMode::Block,
        stack_walk: StackWalk::Off,
        rundown_keyword: DEFAULT_RUNDOWN_KEYWORD,
        keyword_fallback: KeywordFallback::UsualRundown,
    }
}

async fn read_to_end(mut stream: IpcStream, mut file: File) -> Result<Received, Failure> {
    let mut reader = Reader::new();
    let mut losses = LossCounter::new();
    let mut received = Received { bytes: 0, lost: 0, by_provider: BTreeMap::new() };
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count =
            stream.read(&mut buffer).await.map_err(|error| failed(format!("reading the stream: {error}")))?;
        if count == 0 {
            break;
        }
        let bytes = &buffer[..count];
        received.bytes += count as u64;
        file.write_all(bytes).map_err(|error| failed(format!("writing the recording: {error}")))?;
        reader.feed(bytes);
        while let Some(record) =
            reader.next_record().map_err(|error| failed(format!("the stream is malformed: {error}")))?
        {
            losses.record(&record);
            if let Record::Event(event) = &record {
                count_one(&mut received.by_provider, &event.definition.provider);
            }
        }
    }
    if let Completion::Truncated { at_byte } = reader.finish() {
        return Err(Failure::new(Exit::Truncated, format!("the stream is truncated at byte {at_byte}")));
    }
    received.lost = losses.lost();
    Ok(received)
}

/// Allocates for a provider's first event only.
fn count_one(by_provider: &mut BTreeMap<String, u64>, provider: &str) {
    match by_provider.get_mut(provider) {
        Some(count) => *count += 1,
        None => {
            by_provider.insert(provider.to_owned(), 1);
        }
    }
}

fn failed(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, message)
}
