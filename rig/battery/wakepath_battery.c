// SPDX-License-Identifier: GPL-2.0
/*
 * A battery and a plug for virtual machines. Writing 0 or 1 to the parameter `plugged` pulls the plug or puts it in, which the
 * kernel tells as of a real one.
 */
#include <linux/module.h>
#include <linux/power_supply.h>

static bool plugged = true;
static struct power_supply *plug, *battery;

static int plug_value(struct power_supply *supply, enum power_supply_property property, union power_supply_propval *value)
{
	if (property != POWER_SUPPLY_PROP_ONLINE)
		return -EINVAL;
	value->intval = plugged;
	return 0;
}

static int battery_value(struct power_supply *supply, enum power_supply_property property,
			 union power_supply_propval *value)
{
	switch (property) {
	case POWER_SUPPLY_PROP_STATUS:
		value->intval = plugged ? POWER_SUPPLY_STATUS_CHARGING : POWER_SUPPLY_STATUS_DISCHARGING;
		return 0;
	case POWER_SUPPLY_PROP_CAPACITY:
		value->intval = 80;
		return 0;
	default:
		return -EINVAL;
	}
}

static const enum power_supply_property plug_properties[] = { POWER_SUPPLY_PROP_ONLINE };
static const enum power_supply_property battery_properties[] = {
	POWER_SUPPLY_PROP_STATUS,
	POWER_SUPPLY_PROP_CAPACITY,
};

static const struct power_supply_desc plug_description = {
	.name = "AC",
	.type = POWER_SUPPLY_TYPE_MAINS,
	.properties = plug_properties,
	.num_properties = ARRAY_SIZE(plug_properties),
	.get_property = plug_value,
};

static const struct power_supply_desc battery_description = {
	.name = "BAT0",
	.type = POWER_SUPPLY_TYPE_BATTERY,
	.properties = battery_properties,
	.num_properties = ARRAY_SIZE(battery_properties),
	.get_property = battery_value,
};

static int set_plugged(const char *text, const struct kernel_param *parameter)
{
	int failed = param_set_bool(text, parameter);

	if (!failed && plug && battery) {
		power_supply_changed(plug);
		power_supply_changed(battery);
	}
	return failed;
}

static const struct kernel_param_ops plugged_operations = {
	.set = set_plugged,
	.get = param_get_bool,
};
module_param_cb(plugged, &plugged_operations, &plugged, 0644);
MODULE_PARM_DESC(plugged, "whether the plug is in");

static int __init battery_init(void)
{
	struct power_supply_config none = {};

	plug = power_supply_register(NULL, &plug_description, &none);
	if (IS_ERR(plug))
		return PTR_ERR(plug);
	battery = power_supply_register(NULL, &battery_description, &none);
	if (IS_ERR(battery)) {
		power_supply_unregister(plug);
		return PTR_ERR(battery);
	}
	return 0;
}

static void __exit battery_exit(void)
{
	power_supply_unregister(battery);
	power_supply_unregister(plug);
}

module_init(battery_init);
module_exit(battery_exit);
MODULE_DESCRIPTION("A battery and a plug for virtual machines");
MODULE_LICENSE("GPL");
