// SPDX-License-Identifier: GPL-2.0
/*
 * Runs nvme_configure_apst(), cut out of drivers/nvme/host/core.c, over drives: one struct
 * apst_record per drive on standard input, one struct apst_result on standard output.
 */
#include "record.h"

#define NVME_QUIRK_NO_DEEPEST_PS	BIT(0)
#define NVME_PS_FLAGS_NON_OP_STATE	BIT(1)
#define NVME_FEAT_AUTO_PST		0x0c
#define GFP_KERNEL			0

#define dev_dbg(dev, ...)	do { } while (0)
#define dev_warn(dev, ...)	do { } while (0)
#define dev_err(dev, ...)	do { } while (0)
#define kzalloc(size, flags)	calloc(1, size)
#define kzalloc_obj(object)	calloc(1, sizeof(object))
#define kfree(ptr)		free(ptr)

struct nvme_feat_auto_pst {
	__le64 entries[32];
};

struct nvme_ctrl {
	void *device;
	u16 npss;
	u8 apsta;
	bool apst_enabled;
	unsigned long quirks;
	u64 ps_max_latency_us;
	struct {
		__le32 entry_lat;
		__le32 exit_lat;
		u8 flags;
	} psd[32];
};

static struct apst_result result;

static int nvme_set_features(struct nvme_ctrl *ctrl, unsigned int feature,
			     unsigned int dword11, void *buffer, size_t size, void *answer)
{
	if (feature != NVME_FEAT_AUTO_PST || size != sizeof(result.entries))
		wp_die("an unexpected command");
	result.sent = 1;
	result.enable = dword11;
	memcpy(result.entries, buffer, size);
	return 0;
}

#include CUT_SOURCE

struct wp_machine wp_now;

int main(void)
{
	const unsigned long defaults[] = {
		apst_primary_timeout_ms, apst_secondary_timeout_ms,
		apst_primary_latency_tol_us, apst_secondary_latency_tol_us,
	};
	size_t size, i;
	struct apst_record *records = wp_read_all(&size);

	if (size % sizeof(*records))
		wp_die("truncated drive record");
	for (i = 0; i < size / sizeof(*records); i++) {
		const struct apst_record *r = &records[i];
		struct nvme_ctrl ctrl = {
			.npss = r->npss, .apsta = r->apsta, .apst_enabled = r->enabled,
			.quirks = r->no_deepest ? NVME_QUIRK_NO_DEEPEST_PS : 0,
			.ps_max_latency_us = r->max_latency_us,
		};
		int s;

		if (r->max_latency_us == U64_MAX)
			ctrl.ps_max_latency_us = default_ps_max_latency_us;
		for (s = 0; s < 32; s++) {
			ctrl.psd[s].entry_lat = r->states[s].entry_us;
			ctrl.psd[s].exit_lat = r->states[s].exit_us;
			if (r->states[s].non_operational)
				ctrl.psd[s].flags = NVME_PS_FLAGS_NON_OP_STATE;
		}
#define PARAMETER(field, n)	((r->field) == U64_MAX ? defaults[n] : (r->field))
		apst_primary_timeout_ms = PARAMETER(primary_timeout_ms, 0);
		apst_secondary_timeout_ms = PARAMETER(secondary_timeout_ms, 1);
		apst_primary_latency_tol_us = PARAMETER(primary_tolerance_us, 2);
		apst_secondary_latency_tol_us = PARAMETER(secondary_tolerance_us, 3);

		memset(&result, 0, sizeof(result));
		nvme_configure_apst(&ctrl);
		wp_write_all(&result, sizeof(result));
	}
	return 0;
}
