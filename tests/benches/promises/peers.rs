//! Which of the peers are here.

use std::fmt;

use serde_json::{Value, json};
use support::peers::Peers;

use crate::case::{DOTNET, Peer};
use crate::lttng_peer::{self, Setup};
use crate::options::Options;
use crate::row::PeerLoss;

/// The peers of this run, and why others are absent.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    peers: Vec<(Peer, Result<(), String>)>,
    /// By `--peer`.
    named: Vec<Peer>,
}

impl Present {
    pub(crate) fn find(options: &Options) -> Self {
        let wanted = |peer| options.peers.as_ref().is_none_or(|wanted| wanted.contains(&peer));
        let look =
            |peer| if wanted(peer) { found(peer, options) } else { Err("left out by --peer".to_owned()) };
        let peers = [Peer::Dotnet, Peer::Lttng].map(|peer| (peer, look(peer))).to_vec();
        Self { peers, named: options.peers.clone().unwrap_or_default() }
    }

    /// The thing itself in another setting must always answer.
    pub(crate) fn loss_of(&self, peer: Peer) -> PeerLoss {
        match peer == Peer::Floor || self.named.contains(&peer) {
            true => PeerLoss::Fails,
            false => PeerLoss::IsNoted,
        }
    }

    pub(crate) fn has(&self, peer: Peer) -> bool {
        peer == Peer::Floor || self.peers.iter().any(|(present, look)| *present == peer && look.is_ok())
    }

    pub(crate) fn json(&self) -> Value {
        let peers = self.peers.iter();
        peers.map(|(peer, look)| json!({ "name": peer.name(), "absent": look.as_ref().err() })).collect()
    }
}

impl fmt::Display for Present {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (peer, look)) in self.peers.iter().enumerate() {
            let end = if index + 1 < self.peers.len() { "\n" } else { "" };
            match look {
                Ok(()) => write!(f, "peer: {}, in the same rounds{end}", peer.name())?,
                Err(reason) => {
                    write!(f, "peer: {} {reason}; its column stays empty{end}", peer.name())?;
                }
            }
        }
        Ok(())
    }
}

fn found(peer: Peer, options: &Options) -> Result<(), String> {
    match peer {
        Peer::Dotnet => Peers::find()
            .and_then(|peers| peers.epload(DOTNET))
            .map(|_| ())
            .ok_or_else(|| "not found here (DIAGPORT_PEERS=path/to/run)".to_owned()),
        // Packages are installed for nobody who has not asked for a peer by name.
        Peer::Lttng => lttng_peer::look(match &options.peers {
            Some(_) => Setup::Install,
            None => Setup::Look,
        }),
        Peer::Floor => Ok(()),
    }
}
