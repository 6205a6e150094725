"""Sweeps larger than one process or one memory: a store on disk that fills up region by region, and launchers.

`core.sweep` runs one process and returns everything in memory. Here the same tasks go to several processes or
machines (`distributed`, `ray_launcher`, or shares for a job array), and results may stay on disk (`zarr_store`). The
bits are the same in every case.
"""
