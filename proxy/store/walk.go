package store

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strings"

	"billbridge/proxy/partner"
)

// conditions select rows, with arguments.
type conditions struct {
	all  []string
	args []any
}

// add adds a condition. Each argument stands where the condition has a verb.
func (c *conditions) add(condition string, args ...any) {
	places := make([]any, len(args))
	for i := range args {
		places[i] = fmt.Sprint("$", len(c.args)+i+1)
	}
	c.all, c.args = append(c.all, fmt.Sprintf(condition, places...)), append(c.args, args...)
}

// given adds a condition with an argument that is not zero.
func (c *conditions) given(condition string, arg any) {
	if !reflect.ValueOf(arg).IsZero() {
		c.add(condition, arg)
	}
}

func (c conditions) String() string { return cmp.Or(strings.Join(c.all, " AND "), "true") }

// examined is the most rows that one statement of a list reads.
const examined = 100

// A walk goes through rows of a table in the order of an index, whatever the statistics say (see planned).
type walk struct {
	table       string
	of, by      string // the columns of the index, by unique; of is "" if by is the only one
	is          string // the value of of
	oldestFirst bool
	rows        conditions        // what else the index needs
	meant       func(*conditions) // which of the rows are meant
	examined    int               // 0 means examined
}

// start is from where the first part of a walk goes on.
func start(oldestFirst bool) int64 {
	if oldestFirst {
		return -1
	}
	return math.MaxInt64
}

// A part of a walk is those of the next examined rows that are meant.
type part[T any] struct {
	found []T
	next  int64 // from where the next part goes on, if it is not limited; 0 after the last
}

// partOf reads the next part of a walk, at most limit of its rows.
func partOf[T any](q tx, w walk, columns string, from int64, limit int) (p part[T]) {
	order, follow := " DESC", " < %s"
	if w.oldestFirst {
		order, follow = " ASC", " > %s"
	}
	c, most := w.rows, cmp.Or(w.examined, examined)
	c.add(w.by+follow, from)
	by := w.by + order
	if w.of != "" {
		c.add(w.of+" IN (%[1]s, %[1]s)", w.is)
		by = w.of + order + ", " + by
	}
	rows := fmt.Sprintf(" FROM %s WHERE %s ORDER BY %s LIMIT ", w.table, c, by)
	p.next, _ = find[int64](q, fmt.Sprintf("SELECT %s%s1 OFFSET %d", w.by, rows, most-1), c.args...)
	c.all = nil
	w.meant(&c)
	p.found = list[T](q, fmt.Sprintf("SELECT %s FROM (SELECT *%s%d) AS %s WHERE %s ORDER BY %s LIMIT %d",
		columns, rows, most, w.table, c, by, limit), c.args...)
	return p
}

// beyond is the end of the range of IDs that begin with prefix: g follows f, the last hex digit.
func beyond(prefix partner.ID) partner.ID { return prefix + "g" }

func checkPrefix(prefix partner.ID) error {
	if !prefix.IsPrefix() {
		// The text may be a key, and is not repeated.
		return fmt.Errorf("%w: a partner is named by 12 to 64 lower-case hex digits of the SHA-256 of its key",
			ErrFilter)
	}
	return nil
}

// fitting is a query for the first and the last partner of the rows in a table that an abbreviated ID, $1, fits. It
// reads two entries of an index, not all rows between.
func fitting(table string) string {
	const end = `SELECT partner FROM (
		SELECT partner FROM %s WHERE partner >= $1 AND partner < $2 ORDER BY partner %s LIMIT 1) AS %[2]s_one`
	return fmt.Sprintf(end, table, "ASC") + " UNION " + fmt.Sprintf(end, table, "DESC")
}

// onePartner returns the partner that an abbreviated ID fits, by queries for partners, and "" if there is none or
// prefix is "". If it fits two, the call fails with ErrAmbiguous.
func onePartner(q tx, prefix partner.ID, queries ...string) (one partner.ID) {
	if prefix == "" {
		return ""
	}
	all := list[partner.ID](q, strings.Join(queries, " UNION "), prefix, beyond(prefix))
	if len(all) > 1 {
		q.fail(ErrAmbiguous)
	}
	return append(all, "")[0]
}
