package store

import "database/sql"

// each calls scan for every row of a query, and closes the rows. It takes what QueryContext returns.
func each(rows *sql.Rows, err error, scan func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// collect returns all rows of a query, as scan reads them. It takes what QueryContext returns.
func collect[T any](rows *sql.Rows, err error, scan func(*T, *sql.Rows) error) ([]T, error) {
	var all []T
	err = each(rows, err, func(row *sql.Rows) error {
		var one T
		if err := scan(&one, row); err != nil {
			return err
		}
		all = append(all, one)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// column scans the row of a query for one column.
func column[T any](to *T, row *sql.Rows) error { return row.Scan(to) }
