"""The table of NumPy functions: their arguments, and how each is passed to the tenkey function."""

from __future__ import annotations

from typing import Final

__all__ = ["ADAPTED", "TABLE", "WIDER"]

# NumPy's names: NumPy's arguments in NumPy's order. Those before the stroke are passed on by position, those after it
# by keyword (theirs=ours where the names differ). A sequence of operands has a star, any number of operands an
# ellipsis. An argument with a minus has no counterpart, one with a tilde has no effect here, and dtype@ is the dtype
# to convert the first operand to. With axis! the axis None flattens the first operand, with axis!! that is the default.
TABLE: Final = """
sum prod nansum nanprod: a / axis dtype -out keepdims -initial -where
mean: a / axis dtype@ -out keepdims -where
std var: a / axis dtype@ -out ddof=correction keepdims -where -mean correction
max amax min amin nanmax nanmin: a / axis -out keepdims -initial -where
all any: a / axis -out keepdims -where
argmax argmin nanargmax nanargmin ptp: a / axis -out keepdims
nanmean: a / axis dtype -out keepdims -where
nanstd nanvar: a / axis dtype -out ddof=correction keepdims -where -mean correction
median nanmedian: a / axis -out ~overwrite_input keepdims
quantile percentile nanquantile nanpercentile: a q / axis -out ~overwrite_input method keepdims weights
count_nonzero: a / axis keepdims
average: a / axis weights returned keepdims
cumulative_sum cumulative_prod: x / axis dtype -out include_initial
cumsum cumprod nancumsum nancumprod: a / axis dtype -out
gradient: f varargs... / axis edge_order
trapezoid: y / x dx axis
diff: a / n axis prepend append
ediff1d: ary / to_end to_begin
unwrap: p / discont axis period
concatenate concat: arrays* / axis! -out dtype casting
stack: arrays* / axis -out dtype casting
vstack hstack: tup* / dtype casting
dstack column_stack: tup* /
append: arr values / axis
insert: arr obj values / axis
delete: arr obj / axis
resize: a new_shape /
trim_zeros: filt / trim axis
block: arrays /
moveaxis: a source destination /
rollaxis: a axis / start
swapaxes: a axis1 axis2 /
transpose: a / axes
reshape: a shape / order copy
squeeze size: a / axis
ravel: a / order
copy: a / -order ~subok
expand_dims: a axis /
broadcast_to: array shape / ~subok
flip: m / axis
fliplr flipud: m /
rot90: m / k axes
roll: a shift / axis
tile: A reps /
repeat: a repeats / axis
split array_split: ary indices_or_sections / axis
hsplit vsplit dsplit: ary indices_or_sections /
unstack: x / axis
diagonal: a / offset axis1 axis2
trace: a / offset axis1 axis2 dtype -out
tril triu: m / k
diag diagflat: v / k
tril_indices_from triu_indices_from: arr / k
diag_indices_from: arr /
ix_: args... /
ravel_multi_index: multi_index dims / mode order
unravel_index: indices shape / order
vander: x / N increasing
packbits: a / axis bitorder
unpackbits: a / axis count bitorder
matrix_transpose sinc iscomplexobj isrealobj unique_all unique_counts unique_inverse unique_values linalg.svdvals: x /
iscomplex isreal linalg.matrix_transpose i0: x /
isneginf isposinf fix: x / -out
real_if_close: a / tol
round around: a / decimals -out
clip: a / a_min=min a_max=max -out min max
nan_to_num: x / copy nan posinf neginf
real imag: val /
angle: z / deg
isclose allclose: a b / rtol atol equal_nan
array_equal: a1 a2 / equal_nan
array_equiv: a1 a2 /
shape ndim argwhere flatnonzero nonzero linalg.inv linalg.det linalg.slogdet linalg.eig linalg.eigvals: a /
result_type: operands... /
where: condition x y /
isin: element test_elements / ~assume_unique invert ~kind
take: a indices / axis!! -out mode
take_along_axis: arr indices / axis!
compress: condition a / axis -out
extract: condition arr /
choose: a choices / -out mode
select: condlist* choicelist* / default
sort argsort: a / axis! ~kind -order ~stable
partition argpartition: a kth / axis! ~kind -order
searchsorted: a v / side sorter
digitize: x bins / right
interp: x xp fp / left right period
bincount: x / weights minlength
histogram: a / bins range density weights
histogram_bin_edges: a / bins range -weights
histogram2d: x y / bins* range density weights
histogramdd: sample / bins* range density weights
unique: ar / return_index return_inverse return_counts axis equal_nan ~sorted
lexsort: keys / axis
sort_complex: a /
intersect1d: ar1 ar2 / ~assume_unique return_indices
union1d: ar1 ar2 /
setdiff1d setxor1d: ar1 ar2 / assume_unique
einsum: operands... / optimize dtype -out ~order ~casting
vdot inner kron linalg.solve: a b /
cross: a b / axisa axisb axisc axis
dot outer: a b / -out
tensordot: a b / axes
cov: m / y rowvar bias ddof fweights aweights dtype
corrcoef: x / y rowvar dtype
convolve correlate: a v / mode
polyval: p x /
polyadd polysub polymul: a1 a2 /
polydiv: u v /
polyder: p / m
polyint: p / m k
polyfit: x y deg / rcond full w cov
poly: seq_of_zeros /
roots: p /
bartlett blackman hamming hanning: M /
kaiser: M beta /
zeros_like ones_like: a / dtype ~order ~subok -shape device
empty_like: prototype / dtype ~order ~subok -shape device
full_like: a fill_value / dtype ~order ~subok -shape device
pad: array pad_width / mode constant_values end_values stat_length reflect_type
meshgrid: xi... / indexing sparse copy
arange: start stop step / dtype device
linspace: start stop num / endpoint -retstep dtype -axis device
asarray array: a / dtype ~order device copy -ndmin ~subok
astype: x dtype / copy device
zeros ones empty: shape / dtype ~order device
full: shape fill_value / dtype ~order device
eye: N / M=n_cols k dtype ~order device
linalg.eigh linalg.eigvalsh: a / UPLO
linalg.svd: a / full_matrices compute_uv hermitian
linalg.qr: a / mode
linalg.cholesky: a / upper
linalg.lstsq: a b / rcond
linalg.pinv: a / rcond hermitian rtol
linalg.matrix_rank: A / tol hermitian rtol
linalg.cond: x / p
linalg.tensorsolve: a b / axes
linalg.tensorinv: a / ind
linalg.tensordot: x1 x2 / axes
linalg.matrix_power: a n /
linalg.multi_dot: arrays* / -out
linalg.norm: x / ord axis keepdims
linalg.matrix_norm: x / keepdims ord
linalg.vector_norm: x / axis keepdims ord
linalg.cross linalg.vecdot: x1 x2 / axis
linalg.outer linalg.matmul: x1 x2 /
linalg.diagonal linalg.trace: x / offset dtype
fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft: a / n axis norm -out
fft.fftn fft.ifftn fft.rfftn fft.irfftn: a / s axes norm -out
fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2: a / s axes norm -out
fft.fftshift fft.ifftshift: x / axes
fft.fftfreq fft.rfftfreq: n / d device
"""

ADAPTED: Final = {
    "numpy_mathematics":
        "linalg.eigh linalg.eigvalsh linalg.svd linalg.qr linalg.matrix_rank linalg.pinv linalg.eig linalg.eigvals "
        "linalg.cond einsum linalg.lstsq interp cross trace outer fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 angle "
        "sort_complex real i0 nan_to_num",
    "numpy_polynomials":
        "roots polyadd polysub polymul polydiv polyfit polyval",
    "numpy_shapes":
        "reshape ravel concatenate concat stack vstack hstack dstack column_stack append insert delete resize "
        "trim_zeros split array_split hsplit vsplit dsplit block broadcast_to rollaxis squeeze tril triu meshgrid take "
        "choose vander pad compress extract repeat ravel_multi_index unravel_index",
    "numpy_statistics":
        "histogram histogram_bin_edges histogramdd histogram2d bincount cov corrcoef diff ediff1d trapezoid unwrap "
        "gradient cumulative_sum cumulative_prod convolve correlate round quantile percentile nanquantile "
        "nanpercentile argsort partition argpartition unique intersect1d setdiff1d setxor1d",
}  # fmt: skip
"""The modules with functions that are not quite those of ``tk``, by NumPy's names: imported at their first use."""
WIDER: Final = (
    "sum prod any all count_nonzero mean var std nansum nanprod nanmean nanvar nanstd max amax min amin nanmax nanmin "
    "argmax argmin ptp sort argsort partition argpartition median nanmedian searchsorted"
)
"""The functions with another one in ``numpy_reductions``, for arguments and dtypes that the operator does not take."""
