//! Whom the server talks to.

use diagport_transport::{PeerIdentity, PortAccess, effective_uid};

/// Who opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The peer connected to our socket file.
    Listen,
    /// We connected to the peer's.
    Connect,
}

/// Our own user and root; a named group as well, where an option says so.
// spec: SRV-PEER-1
pub(crate) fn is_welcome(peer: PeerIdentity, door: Door, access: PortAccess) -> bool {
    if peer.uid == effective_uid() || peer.uid == 0 {
        return true;
    }
    match (access, door) {
        (PortAccess::OwnerOnly, _) => false,
        // The kernel held the peer against the file's group, supplementary groups included, which credentials lack.
        (PortAccess::Group { .. }, Door::Listen) => true,
        (PortAccess::Group { gid }, Door::Connect) => peer.gid == gid,
    }
}

#[cfg(test)]
mod tests {
    use super::{Door, is_welcome};
    use diagport_transport::{PeerIdentity, PortAccess, effective_uid};

    // spec-test: SRV-PEER-1
    #[test]
    fn own_user_root_and_the_named_group() {
        let stranger = effective_uid() + 4711;
        let check = |uid: u32, gid: u32, door: Door, access: PortAccess, expected: bool| {
            let peer = PeerIdentity { pid: Some(1), uid, gid };
            assert_eq!(is_welcome(peer, door, access), expected, "{peer:?} {door:?} {access:?}");
        };
        let group = PortAccess::Group { gid: 77 };
        for door in [Door::Listen, Door::Connect] {
            check(effective_uid(), 1, door, PortAccess::OwnerOnly, true);
            check(0, 0, door, PortAccess::OwnerOnly, true);
            check(stranger, 77, door, PortAccess::OwnerOnly, false);
            check(stranger, 77, door, group, true);
        }
        check(stranger, 1, Door::Connect, group, false);
    }
}
