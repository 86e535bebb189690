// Public headers declare the names that users expect: operators, modules, optimizers, data.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>

#include "framework/base/error.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;

struct Group {
  const char* folders;  // the folders whose headers declare them
  const char* names;
};

const Group kGroups[] = {
    {"autograd/ops",
     "einsum index index_put_ masked_select nonzero scatter scatter_add scatter_reduce index_add "
     "index_copy index_select gather take_along_dim repeat_interleave bincount"},
    {"autograd/ops",
     "max min amax amin argmax argmin maximum minimum median quantile clamp cumsum cumprod "
     "var_mean count_nonzero unique searchsorted isclose allclose equal"},
    {"autograd/ops",
     "conv_transpose1d conv_transpose2d pad unfold fold pixel_shuffle grid_sample interpolate "
     "adaptive_max_pool1d adaptive_max_pool2d scaled_dot_product_attention max_pool3d avg_pool3d "
     "adaptive_avg_pool3d adaptive_max_pool3d max_unpool3d dropout3d"},
    {"autograd/ops",
     "unbind roll flip meshgrid diag diagonal hstack vstack tensor_split baddbmm tensordot outer "
     "cdist normalize cosine_similarity instance_norm"},
    {"autograd/ops",
     "glu hardswish hardsigmoid mish prelu selu logsigmoid log2 log10 exp2 tan atan atan2 asin "
     "acos sinh cosh trunc frac fmod lerp addcmul logaddexp xlogy nan_to_num lgamma digamma "
     "bitwise_and bitwise_or bitwise_xor bitwise_not"},
    {"autograd/ops",
     "binary_cross_entropy triplet_margin_loss cosine_embedding_loss margin_ranking_loss "
     "gaussian_nll_loss ctc_loss multi_margin_loss multilabel_margin_loss soft_margin_loss "
     "multilabel_soft_margin_loss poisson_nll_loss hinge_embedding_loss"},
    {"autograd/ops framework",
     "dot cross diff logcumsumexp erfinv clamp_min clamp_max broadcast_tensors gumbel_softmax "
     "pairwise_distance tril_indices triu_indices set_printoptions"},
    {"autograd framework",
     "SparseTensor sparse_coo_tensor sparse_csr_tensor from_blob load_npy to_dlpack from_dlpack "
     "jacobian "
     "hessian jvp vjp InferenceMode Slice"},
    {"modules",
     "ModuleList ModuleDict ParameterList clone RNN LSTM GRU RNNCell LSTMCell GRUCell "
     "PackedSequence pack_padded_sequence pad_packed_sequence ConvTranspose1d ConvTranspose2d "
     "InstanceNorm1d InstanceNorm2d EmbeddingBag PixelShuffle Upsample TransformerDecoderLayer "
     "TransformerDecoder Transformer AdaptiveAvgPool2d AdaptiveMaxPool2d MaxPool3d AvgPool3d "
     "AdaptiveAvgPool3d AdaptiveMaxPool3d BatchNorm3d InstanceNorm3d ReflectionPad3d Dropout3d GLU "
     "Hardswish "
     "Hardsigmoid Mish PReLU SELU LogSigmoid BCELoss TripletMarginLoss CosineEmbeddingLoss "
     "MarginRankingLoss GaussianNLLLoss CTCLoss MultiMarginLoss MultiLabelMarginLoss "
     "SoftMarginLoss MultiLabelSoftMarginLoss PoissonNLLLoss HingeEmbeddingLoss "
     "register_full_backward_hook"},
    {"optim modules", "LBFGS NAdam RAdam Adamax add_param_group AveragedModel swa_lr update_bn"},
    {"modules",
     "Normal Bernoulli Categorical Uniform Beta Gamma Dirichlet rsample log_prob entropy "
     "kl_divergence"},
    {"data",
     "Dataset DataLoader TensorDataset Subset ConcatDataset random_split drop_last collate "
     "read_idx read_image accuracy topk_accuracy f1_score auc confusion_matrix "
     "precision recall balanced_accuracy average_precision log_loss calibration_error "
     "mean_absolute_percentage_error symmetric_mean_absolute_percentage_error "
     "perplexity mean_absolute_error root_mean_squared_error r2_score Meter"},
};

std::string headers_of(const std::string& folders) {
  std::string text;
  std::istringstream words(folders);
  for (std::string folder; words >> folder;) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(TAPER_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".h") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        text += line.substr(0, line.find("//")) + "\n";
      }
    }
  }
  return text;
}

TEST(Names, OfModelsAreDeclared) {
  for (const auto& [folders, names] : kGroups) {
    const std::string text = headers_of(folders);
    std::istringstream words(names);
    for (std::string name; words >> name;) {
      EXPECT_TRUE(std::regex_search(text, std::regex("\\b" + name + "\\b")))
          << name << " is not declared in " << folders;
    }
  }
}

}  // namespace
}  // namespace taper::v0
