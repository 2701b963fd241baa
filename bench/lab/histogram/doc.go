// Package histogram counts durations in logarithmic buckets, for latency
// percentiles over any number of samples in constant memory.
//
// The lab's applications and metaroced perf record one sample per operation. A
// bucket is at most 1/128 of its value wide, so a quantile is at most 0.8 % off;
// the maximum is exact. The layout follows the log-linear idea of HdrHistogram.
package histogram
