package main

import "fmt"

// first are the measurements of the first n subjects.
func (m *measurements) first(n int) *measurements {
	return &measurements{m.subjects[:n], m.connections, m.samples[:n]}
}

// byConnections returns the table of all subjects and all numbers of connections.
func (m *measurements) byConnections() table {
	t := table{head: []string{"calls/s, p99, CPU per call"}}
	for _, n := range m.connections {
		t.head = append(t.head, grouped(float64(n)))
	}
	t.head = append(t.head, "CPU growth")
	for i, s := range m.subjects {
		if s.process == nil {
			t.rows = append(t.rows, s.missingRow(len(t.head)))
			continue
		}
		row := []string{s.name}
		var costs []float64
		for c := range m.connections {
			f := m.samples[i][c]
			costs = append(costs, spread(f, cost).median)
			row = append(row, fmt.Sprintf("%s, %s, %.0f µs", rounded(rate(f)), shortTime(p99(f)), costs[c]))
		}
		t.rows = append(t.rows, append(row, fmt.Sprintf("%+.0f %%", 100*growth(costs))))
	}
	return t
}

// growth returns by which part a cost is higher than one with fewer connections; negative if every one is lower.
func growth(costs []float64) float64 {
	highest, lowest := 0.0, costs[0]
	for i, c := range costs[1:] {
		if g := c/lowest - 1; i == 0 || g > highest {
			highest = g
		}
		lowest = min(lowest, c)
	}
	return highest
}
