"""What every section needs: processes that can't be left behind, the lab, the programs measured, the report."""
