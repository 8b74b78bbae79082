//! `AttachProfiler` and `StartupProfiler`.

use crate::reader::Reader;
use crate::writer::Writer;
use crate::{DecodeError, EncodeError, Guid};

/// A request to attach a profiler to the running process.
// spec: PROF-REQ-1
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AttachProfiler {
    /// How long the attach may take, in milliseconds.
    pub attach_timeout_ms: u32,
    /// Class id of the profiler.
    pub profiler_guid: Guid,
    /// Path of the profiler's library; `None` is the null string.
    pub profiler_path: Option<String>,
    /// Bytes for the profiler itself.
    pub client_data: Vec<u8>,
}

impl AttachProfiler {
    // spec: PROF-REQ-2
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let attach_timeout_ms = reader.u32("attachTimeout")?;
        let profiler_guid = reader.guid("profilerGuid")?;
        let profiler_path = reader.string("profilerPath")?;
        let data_bytes = reader.count("clientData", 1)?;
        let client_data = reader.take("clientData", data_bytes)?.to_vec();
        Ok(Self { attach_timeout_ms, profiler_guid, profiler_path, client_data })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new();
        writer.u32(self.attach_timeout_ms);
        writer.guid(self.profiler_guid);
        writer.string("profilerPath", self.profiler_path.as_deref())?;
        writer.count(self.client_data.len());
        writer.raw(&self.client_data);
        Ok(writer.into_bytes())
    }
}

/// A request to load a profiler when startup goes on.
// spec: PROF-REQ-3
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StartupProfiler {
    /// Class id of the profiler.
    pub profiler_guid: Guid,
    /// Path of the profiler's library; `None` is the null string.
    pub profiler_path: Option<String>,
}

impl StartupProfiler {
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(payload);
        let profiler_guid = reader.guid("profilerGuid")?;
        let profiler_path = reader.string("profilerPath")?;
        Ok(Self { profiler_guid, profiler_path })
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut writer = Writer::new();
        writer.guid(self.profiler_guid);
        writer.string("profilerPath", self.profiler_path.as_deref())?;
        Ok(writer.into_bytes())
    }
}
