//! Whom the server talks to.

use diagport_transport::{PeerIdentity, PortAccess, effective_uid};

/// Who may come in by a listen port: our own user and root; where an option names a group, whoever the socket file let in.
///
/// The peer of a connect port is not asked: whoever made our environment named it.
// spec: SRV-PEER-1
pub(crate) fn is_welcome(peer: PeerIdentity, access: PortAccess) -> bool {
    match access {
        // The kernel held the peer against the file's group, supplementary groups included, which credentials lack.
        PortAccess::Group { .. } => true,
        PortAccess::OwnerOnly => peer.uid == effective_uid() || peer.uid == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::is_welcome;
    use diagport_transport::{PeerIdentity, PortAccess, effective_uid};

    // spec-test: SRV-PEER-1
    #[test]
    fn own_user_root_and_the_named_group() {
        let stranger = effective_uid() + 4711;
        let check = |uid: u32, access: PortAccess, expected: bool| {
            let peer = PeerIdentity { pid: Some(1), uid, gid: 1 };
            assert_eq!(is_welcome(peer, access), expected, "{peer:?} {access:?}");
        };
        check(effective_uid(), PortAccess::OwnerOnly, true);
        check(0, PortAccess::OwnerOnly, true);
        check(stranger, PortAccess::OwnerOnly, false);
        check(stranger, PortAccess::Group { gid: 77 }, true);
    }
}
