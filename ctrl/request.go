package ctrl

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"

	"github.com/metaroced/metaroced/ctrl/msg"
	"github.com/metaroced/metaroced/dataplane"
	"golang.org/x/sys/unix"
)

// handle carries out one request and returns the reply.
func (c *session) handle(id uint32, m msg.Message) (msg.Message, outFiles) {
	if id == 0 {
		c.server.counters.add(reasonBadField)
		return &msg.Error{Code: msg.CodeMalformed, Text: fmt.Sprintf("%v with request id 0, which is for events", m.Type())}, outFiles{}
	}
	switch m := m.(type) {
	case *msg.Hello:
		c.server.counters.add(reasonBadState)
		return &msg.Error{Code: msg.CodeState, Text: "second HELLO in one session"}, outFiles{}
	case *msg.AllocRegion:
		return c.allocRegion(m)
	case *msg.GetSlabs:
		return c.getSlabs(m)
	case *msg.GetStatus:
		return c.status()
	case *msg.FreeRegion:
		return c.done(c.freeRegion(m.Region)), outFiles{}
	case *msg.Listen:
		return c.listen(m.Service), outFiles{}
	case *msg.Unlisten:
		return c.done(c.unlisten(m.Service)), outFiles{}
	case *msg.Dial:
		return c.done(c.back.Dial(dataplane.DialSpec{
			Peers: m.Peers, Service: m.Service, Private: m.Private, Token: m.Token,
		})), outFiles{}
	case *msg.Accept:
		return c.done(c.back.Accept(m.Conn, m.Private)), outFiles{}
	case *msg.Refuse:
		return c.done(c.back.Refuse(m.Conn, m.Text)), outFiles{}
	case *msg.CloseConn:
		return c.done(c.back.CloseConn(m.Conn)), outFiles{}
	}
	c.server.counters.add(reasonNotARequest)
	return &msg.Error{Code: msg.CodeUnsupported, Text: fmt.Sprintf("%v is not a request", m.Type())}, outFiles{}
}

// done answers a request that returns nothing but success.
func (c *session) done(err error) msg.Message {
	if err != nil {
		return c.refusal(err)
	}
	return &msg.OK{}
}

func (c *session) refusal(err error) *msg.Error {
	c.server.counters.add(reasonRefusedByDataplane)
	return &msg.Error{Code: msg.CodeRefused, Text: msg.CleanText(err.Error())}
}

func (c *session) invalid(format string, args ...any) *msg.Error {
	c.server.counters.add(reasonBadField)
	return &msg.Error{Code: msg.CodeInvalid, Text: msg.CleanText(fmt.Sprintf(format, args...))}
}

func (c *session) allocRegion(m *msg.AllocRegion) (msg.Message, outFiles) {
	if limit := c.server.cfg.MaxRegionsPerSession; len(c.regions) >= limit {
		c.server.counters.add(reasonLimitRegions)
		return &msg.Error{Code: msg.CodeLimit, Text: fmt.Sprintf(
			"limit of %d regions of a session reached; free one or raise limits.regions_per_session", limit)}, outFiles{}
	}
	info, err := c.back.AllocRegion(int64(m.Size), dataplane.Access(m.Access))
	if err != nil {
		return c.refusal(err), outFiles{}
	}
	c.regions[info.ID] = info
	return slabs(info, 0)
}

func (c *session) getSlabs(m *msg.GetSlabs) (msg.Message, outFiles) {
	info, ok := c.regions[m.Region]
	if !ok {
		return c.invalid("region %d is not of this session", m.Region), outFiles{}
	}
	if int64(m.First) >= int64(len(info.FDs)) {
		return c.invalid("region %d has %d slabs, asked for them from number %d on", m.Region, len(info.FDs), m.First), outFiles{}
	}
	return slabs(info, int(m.First))
}

// slabs describes a region and as many of its slabs as one message takes.
func slabs(info dataplane.RegionInfo, first int) (msg.Message, outFiles) {
	reply := &msg.Region{
		Region: info.ID,
		Slabs:  uint32(len(info.FDs)),
		Key:    info.Key,
		Size:   uint64(info.Size),
		First:  uint32(first),
	}
	var out outFiles
	for _, slab := range info.FDs[first:min(len(info.FDs), first+msg.MaxMessageFDs)] {
		reply.SlabBytes = append(reply.SlabBytes, uint64(slab.Bytes))
		out.files = append(out.files, slab.File)
	}
	return reply, out
}

func (c *session) freeRegion(id uint32) error {
	if _, ok := c.regions[id]; !ok {
		return fmt.Errorf("region %d is not of this session", id)
	}
	if err := c.back.FreeRegion(id); err != nil {
		return err
	}
	delete(c.regions, id)
	return nil
}

func (c *session) listen(service string) msg.Message {
	if limit := c.server.cfg.MaxServicesPerSession; len(c.services) >= limit {
		c.server.counters.add(reasonLimitServices)
		return &msg.Error{Code: msg.CodeLimit, Text: fmt.Sprintf(
			"limit of %d services of a session reached; raise limits.services_per_session", limit)}
	}
	if err := c.back.Listen(service); err != nil {
		return c.refusal(err)
	}
	c.services[service] = struct{}{}
	return &msg.OK{}
}

func (c *session) unlisten(service string) error {
	if _, ok := c.services[service]; !ok {
		return fmt.Errorf("service %q is not of this session", service)
	}
	if err := c.back.Unlisten(service); err != nil {
		return err
	}
	delete(c.services, service)
	return nil
}

// status answers with the dataplane's snapshot and this package's counters, in
// a memfd because it has no bounded size.
func (c *session) status() (msg.Message, outFiles) {
	snapshot := *c.server.backend.Status()
	snapshot.Counters = maps.Clone(snapshot.Counters)
	if snapshot.Counters == nil {
		snapshot.Counters = map[string]uint64{}
	}
	c.server.counters.addTo(snapshot.Counters)
	text, err := json.Marshal(&snapshot)
	if err != nil {
		return c.refusal(err), outFiles{}
	}
	f, err := sealedFile("metaroced-status", text)
	if err != nil {
		return c.refusal(err), outFiles{}
	}
	return &msg.Status{Bytes: uint64(len(text))}, outFiles{files: []*os.File{f}, own: true}
}

// sealedFile returns a memfd that holds content and can never change.
func sealedFile(name string, content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("memfd of %d bytes: %w", len(content), err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal memfd: %w", err)
	}
	return f, nil
}
