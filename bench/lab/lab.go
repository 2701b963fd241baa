package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/metaroced/metaroced/bench/fabric"
)

// The writer's and the verifier's host.
const (
	hostA = fabric.HostA
	hostB = fabric.HostB
	hosts = 2
)

// settleTime is how long after the last operation a daemon counts as idle.
const settleTime = 3 * time.Second

// Run runs the lab once. The error says what kept it from giving a result; what
// is wrong with a result says Result.Failure. Everything that was set up is gone
// when Run returns, also when ctx ends early.
func Run(ctx context.Context, o Options) (result *Result, err error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	r := &run{options: &o}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.setUp(ctx); err != nil {
		return nil, err
	}
	if err := r.job(ctx); err != nil {
		return nil, err
	}
	if err := r.measureIdle(ctx); err != nil {
		return nil, err
	}
	return &r.result, nil
}

// run is one run of the lab: what is set up, and what is known of the result.
type run struct {
	options *Options
	clock   clock
	dir     directory
	fabric  *fabric.Fabric
	apps    *spawner
	daemons [hosts]*daemon
	writer  *appProcess
	verify  *appProcess

	faults faultLog
	result Result
}

// setUp makes the network and starts the daemons.
func (r *run) setUp(ctx context.Context) (err error) {
	o := r.options
	r.result.Seed = o.Seed
	if r.clock, err = newClock(); err != nil {
		return err
	}
	if r.dir, err = newDirectory(); err != nil {
		return err
	}
	if r.fabric, err = openNetwork(o); err != nil {
		return err
	}
	if r.apps, err = newSpawner(o.CPUApps); err != nil {
		return err
	}
	return r.startDaemons(ctx)
}

// startDaemons starts both at once: registering the arena takes most of the time.
func (r *run) startDaemons(ctx context.Context) error {
	cpus := [hosts]int{r.options.CPUA, r.options.CPUB}
	var errs [hosts]error
	done := make(chan struct{})
	for host := range fabric.Host(hosts) {
		go func() {
			spec := daemonSpec{host: host.String(), cpu: cpus[host]}
			r.daemons[host], errs[host] = startDaemon(ctx, r.host(host), r.options, spec, r.dir.path)
			done <- struct{}{}
		}()
	}
	for range hosts {
		<-done
	}
	return errors.Join(errs[:]...)
}

func (r *run) appSpec(role string, host fabric.Host) *appSpec {
	o := r.options
	return &appSpec{
		Role: role, Socket: r.daemons[host].socket, Peers: o.addresses(hostB),
		Seed: o.Seed, Size: o.Size, Depth: o.Depth, Duration: o.Duration,
	}
}

// job runs the applications and fills the result.
func (r *run) job(ctx context.Context) (err error) {
	o := r.options
	if r.verify, err = startApp(r.apps.start, o, r.appSpec(roleVerifier, hostB)); err != nil {
		return err
	}
	if _, err = r.verify.wait(ctx, kindReady, nil); err != nil {
		return err
	}
	if r.writer, err = startApp(r.apps.start, o, r.appSpec(roleWriter, hostA)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Duration+drainLimit+readyLimit)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	started, err := r.writer.wait(ctx, kindStarted, nil)
	if err != nil {
		return err
	}
	before, err := r.daemonCPU()
	if err != nil {
		return err
	}
	schedule := startSchedule(ctx, r, started.Time, fail)
	defer schedule.stop()
	watching := startMonitor(ctx, r, started.Time, fail)
	defer watching.stop()

	written, err := r.writer.wait(ctx, kindDone, func(e *appEvent) {
		if e.Kind == kindFirst {
			r.result.SetupMs = milliseconds(e.Time - r.clock.at(o.Started))
		}
	})
	if err != nil {
		return err
	}
	after, err := r.daemonCPU()
	if err != nil {
		return err
	}
	r.result.CPUSeconds = CPUSeconds{
		DaemonA: (after[hostA] - before[hostA]).Seconds(),
		DaemonB: (after[hostB] - before[hostB]).Seconds(),
	}
	schedule.stop()
	watching.stop() // from here on the verifier's events are ours
	if err := r.verify.tellDone(); err != nil {
		return err
	}
	verified, err := r.verify.wait(ctx, kindDone, nil)
	if err != nil {
		return err
	}
	return r.conclude(ctx, written.Writer, verified.Verifier)
}

// conclude puts together what all parties know.
func (r *run) conclude(ctx context.Context, w *writerResult, v *verifierResult) error {
	res := &r.result
	res.Operations, res.Bytes, res.MismatchedBytes = v.Progress.Operations, v.Progress.Bytes, v.Progress.Mismatched
	res.Errors = w.Errors + v.Progress.Errors
	res.FirstError = v.FirstError
	if res.FirstError == "" {
		res.FirstError = w.FirstError
	}
	res.LatencyUs = w.Latency
	if elapsed := v.Last - w.Start; elapsed > 0 {
		res.DurationMs = milliseconds(elapsed)
		res.GoodputGbps = float64(res.Bytes) * 8 / float64(elapsed)
	}
	res.Timeline = v.Timeline
	if fault, ok := r.faults.firstFailure(); ok {
		res.addFault(milliseconds(fault-v.Start), milliseconds(w.Start+int64(r.options.Duration)-v.Start))
	}
	a, err := r.daemons[hostA].status(ctx)
	if err != nil {
		return err
	}
	b, err := r.daemons[hostB].status(ctx)
	if err != nil {
		return err
	}
	res.addStatus(a, b)
	counters, err := r.fabric.Counters()
	if err != nil {
		return err
	}
	res.addSwitch(counters.Sum(), r.options.impairments())
	return nil
}

// measureIdle measures what the daemons cost while everything is connected and
// nothing happens.
func (r *run) measureIdle(ctx context.Context) error {
	if r.options.Idle == 0 {
		return nil
	}
	if err := pause(ctx, settleTime); err != nil {
		return err
	}
	before, err := r.daemonCPU()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := pause(ctx, r.options.Idle); err != nil {
		return err
	}
	after, err := r.daemonCPU()
	if err != nil {
		return err
	}
	used := max(after[hostA]-before[hostA], after[hostB]-before[hostB])
	fraction := used.Seconds() / time.Since(start).Seconds()
	r.result.IdleCPUFraction = &fraction
	return nil
}

func (r *run) daemonCPU() (used [hosts]time.Duration, err error) {
	for host := range hosts {
		if used[host], err = processCPU(r.daemons[host].command.Process.Pid); err != nil {
			return used, err
		}
	}
	return used, nil
}

// close undoes setUp in reverse.
func (r *run) close() error {
	var errs []error
	for _, a := range []*appProcess{r.writer, r.verify} {
		if a != nil {
			errs = append(errs, a.close())
		}
	}
	for _, d := range r.daemons {
		if d != nil {
			errs = append(errs, d.close())
		}
	}
	if r.apps != nil {
		r.apps.close()
	}
	if r.fabric != nil {
		errs = append(errs, r.fabric.Close())
	}
	errs = append(errs, r.dir.close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the lab: %w", err)
	}
	return nil
}

func milliseconds(nanos int64) float64 { return float64(nanos) / float64(time.Millisecond) }

// pause waits.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
