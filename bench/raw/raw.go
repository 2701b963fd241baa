package raw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
	"github.com/metaroced/metaroced/dataplane/port/xdp"
)

// Run measures once. It builds a fabric of its own and removes it.
func Run(ctx context.Context, config Config) (Result, error) {
	config, err := config.withDefaults()
	if err != nil {
		return Result{}, err
	}
	f, err := fabric.Open(fabric.Options{Planes: config.Planes, MTU: config.MTU})
	if err != nil {
		return Result{}, err
	}
	result, err := config.measure(ctx, f)
	return result, errors.Join(err, f.Close())
}

func (c *Config) measure(ctx context.Context, f *fabric.Fabric) (result Result, err error) {
	for plane := range c.Planes {
		for _, d := range [...]fabric.Direction{fabric.AToB, fabric.BToA} {
			if err := f.SetRate(plane, d, fabric.Rate{BitsPerSecond: c.PlaneRate}); err != nil {
				return Result{}, err
			}
		}
	}
	// The receiver first: what is sent to nobody would measure something else.
	var sides [2]*process
	defer func() {
		for _, p := range sides {
			if p != nil {
				err = errors.Join(err, p.end())
			}
		}
	}()
	for _, host := range [...]fabric.Host{fabric.HostB, fabric.HostA} {
		if sides[host], err = startSide(ctx, f, c.spec(host), c); err != nil {
			return Result{}, err
		}
	}
	if err := wait(ctx, c.WarmUp); err != nil {
		return Result{}, err
	}
	before, err := snapshot(sides)
	if err != nil {
		return Result{}, err
	}
	if err := wait(ctx, c.Duration); err != nil {
		return Result{}, err
	}
	after, err := snapshot(sides)
	if err != nil {
		return Result{}, err
	}
	if damaged := after[fabric.HostB].Damaged; damaged > 0 {
		return Result{}, fmt.Errorf("raw: %d packets arrived damaged", damaged)
	}
	return c.result(before, after), nil
}

func (c *Config) spec(host fabric.Host) spec {
	port := xdp.Config{Mode: c.Mode, TxBudget: c.TxBudget, RxRing: c.RxRing, TxRing: c.TxRing}
	// The sides size their arenas by them.
	if port.RxRing == 0 {
		port.RxRing = xdp.DefaultRing
	}
	if port.TxRing == 0 {
		port.TxRing = xdp.DefaultRing
	}
	port.RxFrames, port.TxFrames = port.RxRing, port.TxRing
	if c.BusyPoll {
		port.BusyPoll.Micros = DefaultPollMicros
	}
	return spec{
		Host: host, CPU: [...]int{c.CPUA, c.CPUB}[host], Planes: c.Planes, PayloadBytes: c.PayloadBytes,
		Copy: c.Copy, Batch: c.Batch, Spin: c.Spin, Port: port,
	}
}

func (c *Config) result(before, after [2]report) Result {
	a, b := fabric.HostA, fabric.HostB
	r := Result{
		Packets:      after[b].Packets - before[b].Packets,
		Seconds:      float64(after[b].Nanos-before[b].Nanos) / 1e9,
		Sent:         after[a].Packets - before[a].Packets,
		CPUSender:    float64(after[a].CPUNanos-before[a].CPUNanos) / 1e9,
		CPUReceiver:  float64(after[b].CPUNanos-before[b].CPUNanos) / 1e9,
		Mode:         after[b].Mode,
		PayloadBytes: c.PayloadBytes,
		FrameBytes:   frameBytes(c.PayloadBytes),
	}
	r.PPS = float64(r.Packets) / r.Seconds
	r.FrameGbps = r.PPS * float64(r.FrameBytes) * 8 / 1e9
	r.PayloadGbps = r.PPS * float64(r.PayloadBytes) * 8 / 1e9
	return r
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// process is a running side.
type process struct {
	host    fabric.Host
	command *exec.Cmd
	cancel  context.CancelFunc
	input   io.WriteCloser
	encoder *json.Encoder
	decoder *json.Decoder
}

// startSide starts a side and returns when it is ready.
func startSide(ctx context.Context, f *fabric.Fabric, s spec, c *Config) (*process, error) {
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	command.Env = os.Environ()
	command.Stderr = c.Log
	input, err := command.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := f.Start(s.Host, command); err != nil {
		cancel()
		return nil, fmt.Errorf("raw: start the side of %v: %w", s.Host, err)
	}
	p := &process{s.Host, command, cancel, input, json.NewEncoder(input), json.NewDecoder(output)}
	if err := p.encoder.Encode(s); err != nil {
		return nil, errors.Join(p.failure(err), p.kill())
	}
	if _, err := p.read(); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

func (p *process) failure(err error) error {
	return fmt.Errorf("raw: side of %v: %w", p.host, err)
}

func (p *process) read() (r report, err error) {
	if err := p.decoder.Decode(&r); err != nil {
		return r, p.failure(err)
	}
	return r, nil
}

func (p *process) kill() error {
	p.cancel()
	return p.command.Wait()
}

// end lets the side finish and judges its last report.
func (p *process) end() error {
	defer p.cancel()
	err := p.input.Close()
	last, readErr := p.read()
	err = errors.Join(err, readErr, p.command.Wait())
	if err == nil && last.Leaked > 0 {
		err = p.failure(fmt.Errorf("%d frames leaked", last.Leaked))
	}
	return err
}

// snapshot asks both sides for their counters.
func snapshot(sides [2]*process) (reports [2]report, err error) {
	for i, p := range sides {
		if err := p.encoder.Encode("report"); err != nil {
			return reports, p.failure(err)
		}
		if reports[i], err = p.read(); err != nil {
			return reports, err
		}
	}
	return reports, nil
}
