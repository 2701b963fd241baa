// Package neighbor follows routes, neighbours and links of the planes through
// netlink and turns them into frame templates.
//
// Workers never wait for it: Resolve reads a published snapshot and, for what
// is not in it, leaves a request that the table's own goroutine (Run) serves.
// Whenever a template may have changed, Generation grows and workers resolve
// again. AF_XDP traffic does not keep the kernel's neighbour entries alive, so
// the table nudges the kernel about those in use.
package neighbor
