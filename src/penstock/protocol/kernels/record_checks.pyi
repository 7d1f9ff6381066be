from penstock.protocol.kernels.record_checks_py import check_records as check_records
