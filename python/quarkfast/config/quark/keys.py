"""Quark's option keys that quarkfast has no option for: the values that are accepted, and why others are not."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["ALGORITHM_KEYS", "DEAD_KEYS", "NEUTRAL_VALUES", "UNSUPPORTED_KEYS"]

#: Key that turns on or configures an algorithm -> the name of the algorithm.
ALGORITHM_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "SmoothAlpha": "SmoothQuant",
        "AutoMixprecision": "automatic mixed precision",
        "RMatrixDim": "QuaRot",
        "UseRandomHad": "QuaRot",
        "RConfigPath": "QuaRot",
        "CLESteps": "cross-layer equalization",
        "CLETotalLayerDiffThreshold": "cross-layer equalization",
        "CLEScaleAppendBias": "cross-layer equalization",
    }
)

#: Key without effect in Quark itself -> what to do about it.
DEAD_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "UseUnsignedReLU": "it has no effect in Quark either; leave it out",
        "CalibMovingAverageConstant": "it has no effect in Quark either; leave it out",
        "MinimumRealRange": "it has no effect in Quark either; leave it out",
        "UseQDQVitisCustomOps": "it has no effect in Quark either; leave it out",
        "PreprocessYAML": "its name is ShapeShifterYaml since Quark 0.12; leave it out",
        "TensorsRangeFile": "its name is SaveAndRestore; use that",
    }
)

#: Key -> the values that are accepted without effect, because they describe what quarkfast does anyway.
NEUTRAL_VALUES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "AdjustBiasScale": (True, False),
        "AdjustHardSigmoid": (True, False),
        "AdjustShiftBias": (True, False),
        "AdjustShiftCut": (True, False),
        "AdjustShiftRead": (True, False),
        "AdjustShiftSwish": (True, False),
        "AdjustShiftWrite": (True, False),
        "AdjustWeightScaleForInt32Bias": (True, False),
        "AlignConcat": (True, False),
        "AlignEltwiseQuantType": (True, False),
        "AlignPad": (True, False),
        "AlignPool": (True, False),
        "AlignReshape": (True, False),
        "AlignSlice": (True, False),
        "AlignTranspose": (True, False),
        "CalibOptimizeMem": (True, False),
        "CalibWorkerNum": tuple(range(1, 257)),
        "ConvertBNToConv": (False,),
        "ConvertClipToRelu": (False,),
        "ConvertFP16ToFP32": (False,),
        "ConvertNCHWToNHWC": (False,),
        "ConvertReduceMeanToGlobalAvgPool": (False,),
        "ConvertSplitToSlice": (False,),
        "DedicateDQNode": (False,),
        "DedicatedQDQPair": (False,),
        "EnableDualQuantNodePairs": (False,),
        "FoldBatchNorm": (True,),
        "FoldRelu": (True, False),
        "ForceQuantizeNoInputCheck": (True, False),
        "LWPUseHistogram": (True,),
        "MatMulConstBOnly": (True,),
        "MinMSEModeFloatScale": ("All", "HistCenter"),
        "MinMSEModePof2Scale": ("All",),
        "OptimizeModel": (True,),
        "PrintSummary": (True, False),
        "QuantizeAllOpTypes": (True, False),
        "RefineBlockAxis": (True,),
        "RemoveFusedQDQ": (True,),
        "RemoveInputInit": (True,),
        "RemoveQDQConvClip": (True,),
        "RemoveQDQConvLeakyRelu": (True,),
        "RemoveQDQConvPRelu": (True,),
        "RemoveQDQConvRelu": (True,),
        "ReplaceClip6Relu": (False,),
        "SimplifyModel": (True, False),
        "SplitLargeKernelPool": (False,),
        "UseRandomData": (False,),
        "WeightsOnly": (False,),
    }
)

#: Keys with an effect in Quark that quarkfast does not support yet.
UNSUPPORTED_KEYS = frozenset(
    [
        "CalibPassthroughOpTypes",
        "ConvertAvgPoolToDPUVersion",
        "ConvertClipToDPUVersion",
        "ConvertHardSigmoidToDPUVersion",
        "ConvertInstanceNormToDPUVersion",
        "ConvertLeakyReluToDPUVersion",
        "ConvertOpsetVersion",
        "ConvertReduceMeanToDPUVersion",
        "ConvertSigmoidToHardSigmoid",
        "ConvertSoftmaxToDPUVersion",
        "CopyBiasInit",
        "CopySharedInit",
        "CryptoMode",
        "EnableSubgraph",
        "EnableVaimlBF16",
        "EncryptionAlgorithm",
        "EvalDataReader",
        "EvalMetrics",
        "ExecutionProviders",
        "ExtraOpTypesToQuantize",
        "FillAllValueInfo",
        "FixShapes",
        "FuseGelu",
        "FuseInstanceNorm",
        "FuseL2Norm",
        "FuseLayerNorm",
        "InputNodes",
        "Int16Bias",
        "Int16Scale",
        "MatMulNBitsParams",
        "MaxLoopNum",
        "MixedPrecisionTensor",
        "NPULimitationCheck",
        "NodesToExcludeOutputQuantization",
        "OpTypesToExcludeOutputQuantization",
        "OutputNodes",
        "QDQOpTypePerChannelSupportToAxis",
        "QuantizationPreference",
        "QuantizeFP16",
        "RandomDataReaderInputDataRange",
        "RandomDataReaderInputShape",
        "RemoveQDQBetweenOps",
        "RemoveQDQConvGelu",
        "RemoveQDQInstanceNorm",
        "RemoveQDQMulAdd",
        "SaveAndRestore",
        "SaveTensorHistFig",
        "ShapeShifterYaml",
        "SimplifyModelOptions",
        "SimulateDPU",
        "SkipPreprocess",
        "SpecificTensorPrecision",
        "TmpDir",
        "UseFP32Scale",
        "UseMatMulNBits",
        "UsePowerOf2Scale",
        "UseQDQContribOps",
        "UserCustomOpLibPath",
    ]
)
