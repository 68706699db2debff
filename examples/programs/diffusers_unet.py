"""Two denoising steps of a small UNet of diffusers.

warmgraph run examples/programs/diffusers_unet.py
"""

import first_call
import torch
from diffusers import DDIMScheduler, UNet2DConditionModel


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=16, in_channels=4, out_channels=4, block_out_channels=(32, 64), layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32, attention_head_dim=4, norm_num_groups=8,
    ).eval()  # fmt: skip
    unet = torch.compile(unet.to(memory_format=torch.channels_last), fullgraph=True)
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(2)
    image, text = torch.randn(1, 4, 16, 16), torch.randn(1, 7, 32)
    first_call.begin()
    for step in scheduler.timesteps:
        noise = unet(image, step, encoder_hidden_states=text).sample
        image = scheduler.step(noise, step, image).prev_sample
        first_call.done()
    first_call.report([image])


if __name__ == "__main__":
    main()
