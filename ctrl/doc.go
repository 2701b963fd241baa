// Package ctrl is the daemon's control plane: the Unix socket applications
// attach to, what they may ask for there, and what it costs them to misbehave.
// cmd/metaroced creates the Server and gives it the dataplane as a Backend.
//
// # Goroutines of one session
//
//	application ──► reader: one request at a time ──► Backend / Session calls
//	                   │ reply
//	                   ▼
//	application ◄── pump: replies, and events from Session.Events
//
// Nothing is shared between sessions but the Server's table and its counters,
// so a slow or hostile application holds up itself alone. Nothing here runs on
// a dataplane worker.
//
// # Ownership
//
// Descriptors handed to applications (Session.RingFile, Session.WakeFile and
// RegionInfo.FDs) belong to the dataplane's session, which closes them in
// FreeRegion and Close; this package only sends them. Session.Close is called
// exactly once for every session that was opened, whatever ended it: the
// application closing its socket or dying, a broken rule, the Server stopping,
// or the dataplane closing the Events channel.
//
// # What an application cannot do
//
// Descriptors it sends are discarded by the kernel, since no receive has a
// control buffer. Messages it does not read are counted through the kernel's
// own account of unread bytes: at most msg.MaxUnreadMessages and
// msg.MaxUnreadFDs are left with it, further ones wait here up to
// Config.MaxPendingEvents and Config.UnreadTimeout, then it is disconnected.
// Connections count against the limits from accept on, before any HELLO.
package ctrl
